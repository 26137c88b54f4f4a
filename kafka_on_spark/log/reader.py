"""Reads committed records of one partition as Arrow batches, with the columns of Spark's Kafka
source.

It decodes a segment batch by batch, after a check of all its bytes; log/reading.py decides
which replica serves it.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Final

import pyarrow as pa

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.log.reading import (
    FinishCompaction,
    NoteFailure,
    OnDeleted,
    Piece,
    read_pieces,
    refuse_deleted,
)
from kafka_on_spark.log.replica_headers import APPEND_TIME, CREATE_TIME
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import (
    HEADERS,
    TIMESTAMP,
    between_deltas,
    read_segment,
    segment_batches,
)
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.roots import StorageOptions

BATCH_ROWS_MAX: Final = 16_384
"""Rows that are decoded at once: two megabytes of usual records, few enough to be in the
processor's cache still when they are sent to Spark."""

ROW_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
"""Rows of Spark's Kafka source."""

ROW_SCHEMA_WITH_HEADERS: Final = ROW_SCHEMA.append(pa.field("headers", HEADERS))


LEADER_EPOCH: Final = pa.field("leaderEpoch", pa.int32())
"""Under which leadership a record was appended: no column of Spark's source. Source: Kafka's
ConsumerRecord.leaderEpoch."""


def row_schema(*, has_headers: bool, has_epochs: bool = False) -> pa.Schema:
    """Return the schema of the rows that `read_rows` yields."""
    schema = ROW_SCHEMA_WITH_HEADERS if has_headers else ROW_SCHEMA
    return schema.append(LEADER_EPOCH) if has_epochs else schema


def read_rows(
    order: ReadOrder,
    replicas: ReplicaStore,
    options: StorageOptions,
    *,
    has_headers: bool = True,
    has_epochs: bool = False,
    note: NoteFailure = lambda address, segment, error: None,
    on_deleted: OnDeleted = refuse_deleted,
    finish_compaction: FinishCompaction | None = None,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the records of `order`'s range in offset order; call `note` for a replica that fails,
    and the others as `read_pieces` does.

    Raises:
        KafkaStorageError: No replica can serve the rest of the range; it gives each one's reason.
        And what `on_deleted` raises.
    """

    constants = _Constants(order)
    schema = row_schema(has_headers=has_headers, has_epochs=has_epochs)

    def rows_of(piece: Piece, position: Offset) -> Iterator[pa.RecordBatch]:
        first = max(position - piece.base_offset, 0)
        end = min(order.end_offset, piece.end_offset) - piece.base_offset
        for records in segment_batches(
            piece.address, piece.segment, options, _columns(has_headers), BATCH_ROWS_MAX
        ):
            wanted = between_deltas(records, first, end)
            if wanted.num_rows:
                yield _rows(constants, piece, wanted, schema)
            if records.column("offset_delta")[-1].as_py() >= end - 1:
                return

    yield from read_pieces(
        order,
        replicas,
        rows_of,
        note,
        end_of=end_of,
        on_deleted=on_deleted,
        finish_compaction=finish_compaction,
    )


def count_records(
    order: ReadOrder,
    replicas: ReplicaStore,
    options: StorageOptions,
    *,
    note: NoteFailure = lambda address, segment, error: None,
    on_deleted: OnDeleted = refuse_deleted,
    finish_compaction: FinishCompaction | None = None,
) -> int:
    """Return how many records `order`'s range has, by the headers of its segments.

    A file is read only where the range begins or ends inside it and records are missing there: of
    that one the offsets count.

    Raises: as `read_rows`.
    """

    def counts_of(piece: Piece, position: Offset) -> Iterator[int]:
        first = max(position - piece.base_offset, 0)
        end = min(order.end_offset, piece.end_offset) - piece.base_offset
        size = piece.end_offset - piece.base_offset
        if (first, end) == (0, size):
            yield piece.segment.record_count
        elif piece.segment.record_count == size:
            yield end - first
        else:
            records = read_segment(piece.address, piece.segment, options, ("offset_delta",))
            yield between_deltas(records, first, end).num_rows

    return sum(
        read_pieces(
            order,
            replicas,
            counts_of,
            note,
            on_deleted=on_deleted,
            finish_compaction=finish_compaction,
        )
    )


def end_of(rows: pa.RecordBatch) -> Offset:
    """Return the offset after the last of some rows."""
    return Offset(rows.column("offset")[-1].as_py() + 1)


def _columns(has_headers: bool) -> tuple[str, ...]:
    columns = ("offset_delta", "timestamp", "key", "value")
    return (*columns, "headers") if has_headers else columns


class _Constants:
    """The columns of a partition's rows that have one value, for any batch of a task."""

    def __init__(self, order: ReadOrder) -> None:
        self.topic = pa.repeat(order.name.topic, BATCH_ROWS_MAX)
        self.partition = pa.repeat(pa.scalar(order.name.partition, pa.int32()), BATCH_ROWS_MAX)
        self.types = {
            each: pa.repeat(pa.scalar(each, pa.int32()), BATCH_ROWS_MAX)
            for each in (CREATE_TIME, APPEND_TIME)
        }


def _rows(
    constants: _Constants, piece: Piece, records: pa.RecordBatch, schema: pa.Schema
) -> pa.RecordBatch:
    """Return records of a segment as rows of such a schema."""
    count = records.num_rows
    timestamp_us = piece.batch.common_timestamp_us
    if timestamp_us is not None:
        timestamps = pa.repeat(pa.scalar(timestamp_us, pa.int64()).cast(TIMESTAMP), count)
    else:
        timestamps = records.column("timestamp").cast(TIMESTAMP)
    kind = APPEND_TIME if piece.batch.has_append_time else CREATE_TIME
    columns = [
        records.column("key"),
        records.column("value"),
        constants.topic.slice(0, count),
        constants.partition.slice(0, count),
        pc.add(records.column("offset_delta").cast(pa.int64()), piece.base_offset),
        timestamps,
        constants.types[kind].slice(0, count),
    ]
    if "headers" in schema.names:
        columns.append(records.column("headers").cast(HEADERS))
    if LEADER_EPOCH.name in schema.names:
        epoch = pa.scalar(piece.batch.leader_epoch, LEADER_EPOCH.type)
        columns.append(pa.repeat(epoch, count))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def read_timestamps(
    address: ReplicaAddress, segment: Segment, options: StorageOptions
) -> Iterable[tuple[int, int]]:
    """Return `offset_delta` and timestamp, µs since 1970 UTC, of a segment's records, in order.

    Raises:
        CorruptLogError: The file is missing or damaged.
        KafkaStorageError: The root does not answer.
    """
    records = read_segment(address, segment, options, ("offset_delta", "timestamp"))
    times = records.column("timestamp").cast(TIMESTAMP).cast(pa.int64()).to_pylist()
    return zip(records.column("offset_delta").to_pylist(), times, strict=True)
