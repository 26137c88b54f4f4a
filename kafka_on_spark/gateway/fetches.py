"""Fetches: committed records of a partition, as record batches, of which the newest are kept."""

import threading
from collections import OrderedDict
from typing import Final

from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.consume.reads import Reads
from kafka_on_spark.gateway.record_batches import empty, encoded, end_of
from kafka_on_spark.log.read_order import plan_read
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.node.node import Node

FETCH_OFFSETS_MAX: Final = 100_000
READ_BYTES_MIN: Final = 8 << 20
"""So many offsets of a partition are read at once at most, and so many bytes at least: a file is
read as a whole."""

KEPT_BYTES_MAX: Final = 64 << 20
"""What a gateway keeps of encoded batches."""


class Fetches:
    """Reads partitions, and keeps what was encoded last. Threads may share it.

    What is kept is good as long as the leadership is the same: an unclean election alone takes
    committed records back, and begins another one.
    """

    def __init__(self, node: Node) -> None:
        self._reads = Reads(node)
        self._lock = threading.Lock()
        # By partition, leadership, and the offset from which a consumer asks.
        self._kept: OrderedDict[tuple[PartitionKey, int, int], bytes] = OrderedDict()
        self._kept_bytes = 0

    def fetch(
        self,
        image: MetadataImage,
        key: PartitionKey,
        start_offset: int,
        *,
        bytes_max: int,
        rack: str | None,
    ) -> bytes:
        """Return batches of the committed records from `start_offset` on: one at least, if there
        are any, and then up to `bytes_max`.

        Raises:
            OffsetOutOfRangeError: The log does not have that offset.
            KafkaStorageError: No replica can serve it.
        """
        partition = image.topics[key.topic_id].partitions[key.partition]
        epoch = int(partition.leader_epoch)
        found: list[bytes] = []
        size = 0
        while True:
            batch = self._kept_from(key, epoch, start_offset)
            if batch is None and not found:
                batch = self._read(image, key, epoch, start_offset, rack, bytes_max)
            if batch is None or (found and size + len(batch) > bytes_max):
                return b"".join(found)
            found.append(batch)
            size += len(batch)
            start_offset = end_of(batch)

    def _kept_from(self, key: PartitionKey, epoch: int, start_offset: int) -> bytes | None:
        place = (key, epoch, start_offset)
        with self._lock:
            if (kept := self._kept.get(place)) is not None:
                self._kept.move_to_end(place)
            return kept

    def _read(
        self,
        image: MetadataImage,
        key: PartitionKey,
        epoch: int,
        start_offset: int,
        rack: str | None,
        bytes_max: int,
    ) -> bytes | None:
        """Read and keep batches from an offset on; return the first one, None if nothing more is
        committed."""
        order = plan_read(
            image,
            key,
            start_offset=Offset(start_offset),
            end_offset=Offset(start_offset + FETCH_OFFSETS_MAX),
            client_rack=rack,
        )
        if order.end_offset <= start_offset:
            return None
        first: bytes | None = None
        size, next_offset = 0, start_offset
        rows = self._reads.rows(order, has_epochs=True)
        for batch in (each for part in rows for each in encoded(part)):
            first = first or batch
            self._keep((key, epoch, next_offset), batch)
            size, next_offset = size + len(batch), end_of(batch)
            if size >= max(bytes_max, READ_BYTES_MIN):
                rows.close()
                break
        else:
            if next_offset < order.end_offset:  # compaction has taken the last ones
                batch = empty(next_offset, order.end_offset, epoch)
                first = first or batch
                self._keep((key, epoch, next_offset), batch)
        self._reads.end()
        return first

    def _keep(self, place: tuple[PartitionKey, int, int], batch: bytes) -> None:
        with self._lock:
            before = self._kept.pop(place, b"")
            self._kept[place] = batch
            self._kept_bytes += len(batch) - len(before)
            while self._kept_bytes > KEPT_BYTES_MAX:
                _, gone = self._kept.popitem(last=False)
                self._kept_bytes -= len(gone)
