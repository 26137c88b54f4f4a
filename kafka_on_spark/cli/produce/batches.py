"""Records of lines as Arrow, as an append takes them."""

from dataclasses import dataclass

import pyarrow as pa

from kafka_on_spark.cli.lines.columns import Columns
from kafka_on_spark.storage.replicas.segments import HEADERS, TIMESTAMP
from kafka_on_spark.storage.staging.staging import INPUT_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """What all records get, whatever their lines say; None: nothing.

    Attributes:
        timestamp_us: The create time, µs since 1970 UTC.
        partition: The partition; -1: the key decides, whatever a line says.
    """

    timestamp_us: int | None = None
    partition: int | None = None


def batch_of(columns: Columns, fixed: Fixed, sticky: int) -> pa.RecordBatch:
    """Return records as INPUT_SCHEMA; those that nothing gives a partition go to `sticky`."""
    count = len(columns)
    keys = columns.keys
    return pa.RecordBatch.from_arrays(
        [
            _timestamps(columns, fixed),
            pa.nulls(count, pa.binary()) if keys is None else pa.array(keys, pa.binary()),
            pa.array(columns.values, pa.binary()),
            _headers(columns),
            _partitions(columns, fixed, sticky),
        ],
        schema=INPUT_SCHEMA,
    )


def _timestamps(columns: Columns, fixed: Fixed) -> pa.Array:
    if fixed.timestamp_us is not None:
        return pa.repeat(pa.scalar(fixed.timestamp_us, pa.int64()), len(columns)).cast(TIMESTAMP)
    if columns.timestamps_us is None:
        return pa.nulls(len(columns), TIMESTAMP)
    return pa.array(columns.timestamps_us, pa.int64()).cast(TIMESTAMP)


def _headers(columns: Columns) -> pa.Array:
    if columns.headers is None or not any(columns.headers):
        return pa.nulls(len(columns), HEADERS)
    return pa.array(
        [[{"key": name, "value": value} for name, value in row] or None for row in columns.headers],
        HEADERS,
    )


def _partitions(columns: Columns, fixed: Fixed, sticky: int) -> pa.Array:
    count, keys = len(columns), columns.keys
    if fixed.partition is not None and fixed.partition >= 0:
        return pa.repeat(pa.scalar(fixed.partition, pa.int32()), count)
    given = columns.partitions if fixed.partition is None else None
    if keys is None and given is None:
        return pa.repeat(pa.scalar(sticky, pa.int32()), count)
    # Null where there is a key, which decides.
    chosen = [sticky if each is None else None for each in keys or [None] * count]
    if given is not None:
        chosen = [other if own is None else own for own, other in zip(given, chosen, strict=True)]
    return pa.array(chosen, pa.int32())
