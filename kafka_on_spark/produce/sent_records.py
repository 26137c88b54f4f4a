"""Turns the records of a producer's append into Arrow columns, once an append, and chooses their
partitions.

Apart from records.py, which checks what users give to `append`: these were checked when they were
sent, one by one.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from kafka_on_spark.log.hashing import partitions_of_keys
from kafka_on_spark.log.segments import HEADERS, TIMESTAMP
from kafka_on_spark.produce.sent_record import Headers, SentRecord
from kafka_on_spark.produce.staging import INPUT_SCHEMA
from kafka_on_spark.store import arrow_compute as pc


def split_by_partition(
    records: Sequence[SentRecord], partition_count: int, sticky: int
) -> dict[int, list[SentRecord]]:
    """Return the records of each partition, in their order.

    A record's partition: as given, else by its key as Kafka's default partitioner chooses it, else
    `sticky`.
    """
    split: dict[int, list[SentRecord]] = {}
    keys = pa.array([each.key for each in records], pa.binary())
    numbers = np.full(len(records), sticky, np.int32)
    if keys.null_count < len(records):
        by_key = partitions_of_keys(pc.fill_null(keys, b""), partition_count)
        is_keyed = pc.is_valid(keys).to_numpy(zero_copy_only=False)
        numbers = np.where(is_keyed, by_key, numbers)
    for record, chosen in zip(records, numbers.tolist(), strict=True):
        number = chosen if record.partition is None else record.partition
        if number in split:
            split[number].append(record)
        else:
            split[number] = [record]
    return split


def batch_of(parts: Iterable[tuple[int, Sequence[SentRecord]]]) -> pa.RecordBatch:
    """Return records, by partition, as INPUT_SCHEMA."""
    parts = list(parts)
    records = [record for _, part in parts for record in part]
    numbers = np.repeat([number for number, _ in parts], [len(part) for _, part in parts])
    columns = [
        pa.array([each.timestamp_us for each in records], pa.int64()).cast(TIMESTAMP),
        pa.array([each.key for each in records], pa.binary()),
        pa.array([each.value for each in records], pa.binary()),
        _headers([each.headers for each in records]),
        pa.array(numbers, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=INPUT_SCHEMA)


def _headers(given: Sequence[Headers | None]) -> pa.Array:
    if not any(given):
        return pa.nulls(len(given), HEADERS)
    return pa.array(
        [
            None if each is None else [{"key": name, "value": value} for name, value in each]
            for each in given
        ],
        HEADERS,
    )
