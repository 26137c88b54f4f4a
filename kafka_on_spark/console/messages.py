"""Committed records for the page: by offset, by time, by key. Reads, and changes nothing.

A key is looked for from the end backwards, so far and no further: the page says how far that was.
"""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from kafka_on_spark.base.errors import UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.log.hashing import partitions_of_keys
from kafka_on_spark.log.read_order import check_cut, plan_read
from kafka_on_spark.log.reading import header_pairs, look_up_offsets, pass_deleted, read_rows
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.node.node import Node

COUNT_MAX: Final = 500
SHOWN_BYTES_MAX: Final = 64 * 1024
"""Of a key or a value; more of it is sent if the record is asked for alone."""

LOOKED_MAX: Final = 50_000
"""Offsets in which a key is looked for at once."""

WINDOW: Final = 5_000

View = dict[str, Any]


class Messages:
    """Reads records of one cluster."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def at_offset(
        self, image: MetadataImage, topic: str, partition: int, start: int | None, count: int
    ) -> View:
        """Return up to `count` records of a partition from an offset on (None: the newest), of
        those that were committed in `image`.
        """
        key = partition_key(image, topic, partition)
        low, high = self._bounds(image, key)
        first = max(high - count, low) if start is None else min(max(start, low), high)
        rows: list[View] = []
        for batch in self._rows(key, first, high):
            rows += records_view(batch.slice(0, count - len(rows)), whole=count == 1)
            if len(rows) >= count:
                break
        return {"start": first, "logStart": low, "end": high, "records": rows}

    def at_time(
        self, image: MetadataImage, topic: str, partition: int, time_ms: int, count: int
    ) -> View:
        """Return up to `count` records from the first that is not older than a time."""
        key = partition_key(image, topic, partition)
        now = self._node.metadata.catch_up()
        [found] = look_up_offsets(now, now, [(key, time_ms)], self._node.options, None)
        _, high = self._bounds(image, key)
        return self.at_offset(image, topic, partition, high if found is None else found, count)

    def with_key(
        self, image: MetadataImage, topic: str, wanted: bytes, count: int, before: int | None
    ) -> View:
        """Return the newest records of a key, in the partition where Kafka's default partitioner
        puts it; `before`: those below an offset.
        """
        partitions = image.topic(topic).partitions
        number = int(partitions_of_keys(pa.array([wanted], pa.binary()), len(partitions))[0])
        key = partition_key(image, topic, number)
        low, high = self._bounds(image, key)
        end = high if before is None else min(max(before, low), high)
        stop, found = max(end - LOOKED_MAX, low), list[View]()
        while end > stop and len(found) < count:
            start = max(end - WINDOW, stop)
            matching = [
                row
                for batch in self._rows(key, start, end)
                for row in records_view(_of_key(batch, wanted))
            ]
            room = count - len(found)
            found = matching[-room:] + found
            # What there was no room for is found from below the oldest record that is shown.
            end = start if len(matching) <= room else found[0]["offset"]
        return {
            "start": end,
            "logStart": low,
            "end": high,
            "partition": number,
            "records": found,
            "isLookedThrough": end <= low,
        }

    def _bounds(self, image: MetadataImage, key: PartitionKey) -> tuple[int, int]:
        """Return the first offset that is kept, and the first that was not committed in `image`."""
        now = self._node.metadata.catch_up().partition(key)
        then = image.partition(key)
        assert then is not None, "it was found in this image"
        if now is None:
            raise UnknownTopicOrPartitionError(f"{image.name_of(key)} has been deleted since")
        check_cut(image.name_of(key), then.high_watermark, now)
        high = min(then.high_watermark, now.high_watermark)
        return min(now.log_start_offset, high), high

    def _rows(self, key: PartitionKey, start: int, end: int) -> Iterator[pa.RecordBatch]:
        if start >= end:
            return
        node = self._node
        order = plan_read(
            node.metadata.image,
            key,
            start_offset=Offset(start),
            end_offset=Offset(end),
            client_rack=None,
        )
        rows = read_rows(
            order, node.replicas, node.options, is_whole=False, on_deleted=pass_deleted
        )
        try:
            yield from rows
        finally:
            rows.close()


def _of_key(rows: pa.RecordBatch, wanted: bytes) -> pa.RecordBatch:
    import pyarrow.compute as pc

    return rows.filter(pc.equal(rows.column("key"), pa.scalar(wanted, pa.binary())))


def records_view(rows: pa.RecordBatch, *, whole: bool = False) -> list[View]:
    """Return rows as the page takes them: bytes in base 64, cut unless `whole`."""
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    names = ("partition", "offset", "timestampType", "key", "value", "headers")
    columns = [rows.column(name).to_pylist() for name in names]
    return [
        {
            "partition": partition,
            "offset": offset,
            "timeMs": time // 1000,
            "isAppendTime": kind == 1,
            "key": _bytes(key, whole),
            "value": _bytes(value, whole),
            "headers": [[name, _bytes(each, whole)] for name, each in header_pairs(headers)],
        }
        for partition, offset, kind, key, value, headers, time in zip(*columns, times, strict=True)
    ]


def _bytes(value: bytes | None, whole: bool) -> View | None:
    if value is None:
        return None
    shown = value if whole else value[:SHOWN_BYTES_MAX]
    return {"size": len(value), "base64": b64encode(shown).decode()}
