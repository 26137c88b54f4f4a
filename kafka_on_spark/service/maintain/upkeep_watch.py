"""What of upkeep one process has done, by kind, and how often it failed."""

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.maintain.upkeep_work import CLEAN, UpkeepResult

RETENTION: Final = "retention"
COMPACTION: Final = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepTotal:
    """What a process has done of one kind of work since it began.

    Attributes:
        count: Pieces of work.
        size_bytes: Bytes that they were about.
        written_bytes: Bytes that they wrote in place of these.
        failures: How often it failed.
    """

    count: int = 0
    size_bytes: int = 0
    written_bytes: int = 0
    failures: int = 0


class UpkeepWatch:
    """What was done of one process. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[str, UpkeepTotal] = {}
        self._orphans: dict[tuple[PartitionKey, BrokerId], int] = {}

    def take(self, results: Iterable[UpkeepResult]) -> None:
        """Record what tasks did on replicas."""
        for result in results:
            for kind, work in result.done:
                self.count(kind, work.count, work.size_bytes, work.written_bytes, bool(work.error))
                if kind == CLEAN and not work.error:
                    with self._lock:
                        self._orphans[result.key, result.broker_id] = work.orphan_bytes

    def count(
        self, kind: str, count: int, size_bytes: int, written_bytes: int = 0, failed: bool = False
    ) -> None:
        """Add to what was done of one kind of work."""
        if not (count or failed):
            return
        with self._lock:
            total = self._totals.get(kind, UpkeepTotal())
            self._totals[kind] = UpkeepTotal(
                count=total.count + count,
                size_bytes=total.size_bytes + size_bytes,
                written_bytes=total.written_bytes + written_bytes,
                failures=total.failures + failed,
            )

    @property
    def totals(self) -> dict[str, UpkeepTotal]:
        """What was done of each kind of work."""
        with self._lock:
            return dict(self._totals)

    def orphan_bytes(self, image: MetadataImage) -> dict[BrokerId, int]:
        """Return by broker the bytes of files of the current leader epochs that no commit names, as
        this process saw them in each replica that `image` still has and that it last cleaned. A
        broker of which it cleaned no replica is not there."""
        found: dict[BrokerId, int] = defaultdict(int)
        with self._lock:
            self._orphans = {
                (key, broker_id): size_bytes
                for (key, broker_id), size_bytes in self._orphans.items()
                if _is_made(image, key, broker_id)
            }
            for (_, broker_id), size_bytes in self._orphans.items():
                found[broker_id] += size_bytes
        return dict(found)


def _is_made(image: MetadataImage, key: PartitionKey, broker_id: BrokerId) -> bool:
    partition = image.partition(key)
    if partition is None:
        return False
    return broker_id in partition.replicas and partition.is_created(broker_id)
