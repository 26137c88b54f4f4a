"""Committed records of one partition as Arrow batches, in the row shape of Spark's Kafka source.

Whole segments at a time. If a replica fails in the middle, another goes on at the next offset.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_on_spark.errors import KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.ids import Offset
from kafka_on_spark.log.batch import Batch, Segment
from kafka_on_spark.ports import ReplicaAddress, ReplicaStore
from kafka_on_spark.service.reading import ReadOrder, nobody_can_serve
from kafka_on_spark.service.replicas import proves_complete
from kafka_on_spark.storage.roots import StorageOptions
from kafka_on_spark.storage.segments import HEADERS, TIMESTAMP, read_segment

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
"""Rows of Spark's Kafka source (GROUND §4.1)."""

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
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `order`'s range in offset order.

    Raises:
        KafkaStorageError: No replica can serve the rest of the range; says why, each.
    """
    position = order.start_offset
    reasons = []
    for address in order.candidates:
        if position >= order.end_offset:
            return
        try:
            for base, batch, segment in _segments(order, address, replicas, position):
                table = read_segment(address, segment, options, _columns(has_headers))
                rows = _rows(order, batch, base, table, position, has_headers=has_headers)
                yield from rows.to_batches(max_chunksize=BATCH_ROWS_MAX)
                position = Offset(min(base + segment.record_count, order.end_offset))
        except KafkaOnSparkError as error:
            reasons.append(f"broker {address.broker_id}: {error}")
    if position < order.end_offset:
        raise nobody_can_serve(order, reasons)


def _columns(has_headers: bool) -> tuple[str, ...]:
    columns = ("offset_delta", "timestamp", "key", "value")
    return (*columns, "headers") if has_headers else columns


def _segments(
    order: ReadOrder, address: ReplicaAddress, replicas: ReplicaStore, position: Offset
) -> Iterator[tuple[int, Batch, Segment]]:
    """Yield the segments that hold the rest of the range, with their base offsets.

    Raises:
        ReplicaLostError: The replica does not prove that it has all committed records.
    """
    state = replicas.open(address).load()
    if not proves_complete(state, order.partition):
        raise ReplicaLostError(
            "the replica lacks committed records",
            end=state.log_end_offset,
            high_watermark=order.partition.high_watermark,
        )
    for batch in state.batches_between(position, order.end_offset):
        base = int(batch.base_offset)
        for segment in batch.segments:
            if base < order.end_offset and base + segment.record_count > position:
                yield base, batch, segment
            base += segment.record_count


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
    is_append_time = has_append_time(batch)
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


def has_append_time(batch: Batch) -> bool:
    """Return whether the records' timestamps are the append time (LogAppendTime).

    The stats say so: smallest and largest are the time of the commit. Records that were made
    at just that moment have the same timestamp either way.
    """
    moment_us = batch.appended_at_ms * 1000
    return all(
        segment.timestamp_min_us == segment.timestamp_max_us == moment_us
        for segment in batch.segments
    )
