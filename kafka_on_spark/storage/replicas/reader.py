"""Reads committed records of one partition as Arrow batches, with the columns of Spark's Kafka
source.

It reads whole segments; service/read/reading.py decides which replica serves them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_on_spark.ids import Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Batch, Segment
from kafka_on_spark.ports import ReplicaStore
from kafka_on_spark.query.reads.read_order import ReadOrder
from kafka_on_spark.service.read.reading import NoteFailure, Piece, read_pieces
from kafka_on_spark.storage.replicas.segments import HEADERS, TIMESTAMP, read_segment
from kafka_on_spark.storage.roots.roots import StorageOptions

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1
BATCH_ROWS_MAX: Final = 65_536

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


def row_schema(*, has_headers: bool) -> pa.Schema:
    """Return the schema of the rows that `read_rows` yields."""
    return ROW_SCHEMA_WITH_HEADERS if has_headers else ROW_SCHEMA


def read_rows(
    order: ReadOrder,
    replicas: ReplicaStore,
    options: StorageOptions,
    *,
    has_headers: bool = True,
    note: NoteFailure = lambda address, segment, error: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `order`'s range in offset order; call `note` for a replica that fails.

    Raises:
        KafkaStorageError: No replica can serve the rest of the range; it gives each one's reason.
    """

    def rows_of(piece: Piece, position: Offset) -> Iterable[pa.RecordBatch]:
        table = read_segment(piece.address, piece.segment, options, _columns(has_headers))
        rows = _rows(
            order, piece.batch, piece.base_offset, table, position, has_headers=has_headers
        )
        batches: list[pa.RecordBatch] = rows.to_batches(max_chunksize=BATCH_ROWS_MAX)
        return batches

    yield from read_pieces(order, replicas, rows_of, note)


def _columns(has_headers: bool) -> tuple[str, ...]:
    columns = ("offset_delta", "timestamp", "key", "value")
    return (*columns, "headers") if has_headers else columns


def _rows(
    order: ReadOrder,
    batch: Batch,
    base: int,
    table: pa.Table,
    position: Offset,
    *,
    has_headers: bool,
) -> pa.Table:
    """Return the part of a segment in the range as rows."""
    first = max(position - base, 0)
    table = table.slice(first, min(order.end_offset - base, table.num_rows) - first)
    count = table.num_rows
    timestamps = table.column("timestamp").cast(TIMESTAMP)
    is_append_time = batch.has_append_time
    if is_append_time:
        moment = pa.scalar(batch.appended_at_ms * 1000, pa.int64()).cast(TIMESTAMP)
        timestamps = pa.chunked_array([pa.repeat(moment, count)])
    columns = [
        table.column("key"),
        table.column("value"),
        pa.repeat(order.name.topic, count),
        pa.repeat(pa.scalar(order.name.partition, pa.int32()), count),
        pc.add(table.column("offset_delta").cast(pa.int64()), base),
        timestamps,
        pa.repeat(pa.scalar(LOG_APPEND_TIME if is_append_time else CREATE_TIME, pa.int32()), count),
    ]
    if has_headers:
        columns.append(table.column("headers").cast(HEADERS))
    return pa.Table.from_arrays(columns, schema=row_schema(has_headers=has_headers))


def read_timestamps(
    address: ReplicaAddress, segment: Segment, options: StorageOptions
) -> Sequence[int]:
    """Return a segment's timestamps, µs since 1970 UTC, in offset order.

    Raises:
        CorruptLogError: The file is missing or damaged.
        KafkaStorageError: The root does not answer.
    """
    column = read_segment(address, segment, options, ("timestamp",)).column("timestamp")
    timestamps: Sequence[int] = column.cast(TIMESTAMP).cast(pa.int64()).to_pylist()
    return timestamps
