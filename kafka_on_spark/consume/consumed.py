"""A record as a consumer hands it out, and rows of Arrow as such records."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from kafka_on_spark.base.moments import EPOCH

Headers = list[tuple[str, bytes | None]]


class ConsumerRecord(NamedTuple):
    """A record and where it stands. A tuple is made sooner than another object.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The record's offset.
        timestamp_us: The record's timestamp, µs since 1970 UTC.
        timestamp_type: 0: the time of its creation; 1: of its append.
        key: The key, or None.
        value: The value; None: a tombstone.
        headers: Names and values, in order.
        leader_epoch: The leadership under which the record was appended.
    """

    topic: str
    partition: int
    offset: int
    timestamp_us: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int

    @property
    def timestamp(self) -> datetime:
        """The record's timestamp."""
        return EPOCH + timedelta(microseconds=self.timestamp_us)


def records_of(rows: pa.RecordBatch) -> Iterator[ConsumerRecord]:
    """Yield the records of rows as `Consumer.poll` returns them."""
    times = rows.column("timestamp").cast(pa.int64())
    names = (
        "topic",
        "partition",
        "offset",
        "timestampType",
        "key",
        "value",
        "headers",
        "leaderEpoch",
    )
    columns = [rows.column(name).to_pylist() for name in names]
    for topic, partition, offset, kind, key, value, headers, epoch, time in zip(
        *columns, times.to_pylist(), strict=True
    ):
        pairs = header_pairs(headers)
        yield ConsumerRecord(topic, partition, offset, time, kind, key, value, pairs, epoch)


def header_pairs(headers: Sequence[Mapping[str, Any] | None] | None) -> Headers:
    """Return the names and values of a stored record's headers.

    Appends refuse a header that is null or has no name; one that a log has all the same gets the
    name "".
    """
    return [
        ("", None) if each is None else (each["key"] or "", each["value"]) for each in headers or ()
    ]
