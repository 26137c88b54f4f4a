"""What of upkeep one process has done, by kind, and what of it fails and since when."""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from kafka_on_spark.controller.partitions.compaction import is_compacted
from kafka_on_spark.ids import BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.log.upkeep.retention import limits_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.query.moments import in_seconds
from kafka_on_spark.service.maintain.upkeep_work import CLEAN, UPKEEP, UpkeepResult

TEXT_MAX: Final = 400
"""Characters of an error that are kept."""

RETENTION: Final = "retention"
COMPACTION: Final = "compaction"
ROUND: Final = "round"
"""The kind of work that stands for all of a round."""
ROOT: Final = "root"
"""The kind of work that cleans a broker's root of what killed processes left there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepTrouble:
    """A kind of upkeep that fails.

    Attributes:
        topic: The topic's name; empty: it concerns all.
        partition: The partition's number; -1: it concerns all.
        broker_id: The replica, or the root; None: a decision on the partition.
        kind: The kind of work.
        error: Why it fails.
        since_ms: Since when this process has seen it fail, ms since 1970 UTC.
    """

    topic: str
    partition: int
    broker_id: BrokerId | None
    kind: str
    error: str
    since_ms: int

    def __str__(self) -> str:
        place = f"{self.topic}-{self.partition}" if self.topic else "upkeep"
        if self.broker_id is not None:
            place = f"{place} on broker {self.broker_id}"
        since = f"since {in_seconds(self.since_ms)}"
        return f"{place}: {self.kind} fails {since}: {self.error}"


_Place = tuple[PartitionKey | None, BrokerId | None]


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
    """What was done, and what fails, of one process. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: dict[tuple[_Place, str], tuple[int, str]] = {}
        self._totals: dict[str, UpkeepTotal] = {}
        self._orphans: dict[tuple[PartitionKey, BrokerId], int] = {}

    def take(self, results: Iterable[UpkeepResult]) -> None:
        """Record what tasks did on replicas."""
        for result in results:
            errors = {kind: work.error or None for kind, work in result.done}
            self.record(result.key, result.broker_id, {UPKEEP: None, **errors})
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

    def record(
        self,
        key: PartitionKey | None,
        broker_id: BrokerId | None,
        errors: Mapping[str, str | None],
    ) -> None:
        """Record of each kind of work that was tried why it failed; None: it did not. `key`: None
        for all partitions."""
        now_ms = self._clock.now_ms()
        with self._lock:
            for kind, error in errors.items():
                since_ms, _ = self._failing.pop(((key, broker_id), kind), (now_ms, ""))
                if error is not None:
                    self._failing[(key, broker_id), kind] = (since_ms, error[:TEXT_MAX])

    def current(self, image: MetadataImage) -> list[UpkeepTrouble]:
        """Return what fails of replicas whose brokers are online and that `image` still has."""
        with self._lock:
            self._failing = {
                name: each for name, each in self._failing.items() if _is_tried(image, *name)
            }
            found = [_trouble(image, *name, *each) for name, each in self._failing.items()]
        order = attrgetter("topic", "partition")
        return sorted(found, key=lambda each: (*order(each), each.broker_id or 0, each.kind))


def _trouble(
    image: MetadataImage, place: _Place, kind: str, since_ms: int, error: str
) -> UpkeepTrouble:
    key, broker_id = place
    name = TopicPartition("", -1) if key is None else image.name_of(key)
    return UpkeepTrouble(
        topic=name.topic,
        partition=name.partition,
        broker_id=broker_id,
        kind=kind,
        error=error,
        since_ms=since_ms,
    )


def _is_tried(image: MetadataImage, place: _Place, kind: str) -> bool:
    """Return whether a kind of work is tried there: else nothing would end its failure."""
    key, broker_id = place
    if broker_id is not None:
        broker = image.brokers.get(broker_id)
        is_online = broker is not None and broker.has_upkeep
        return is_online and (key is None or _is_made(image, key, broker_id))
    if key is None:
        return True
    if image.partition(key) is None:
        return False
    settings = image.settings(key.topic_id)
    return limits_of(settings) is not None if kind == RETENTION else is_compacted(settings)


def _is_made(image: MetadataImage, key: PartitionKey, broker_id: BrokerId) -> bool:
    partition = image.partition(key)
    if partition is None:
        return False
    return broker_id in partition.replicas and partition.is_created(broker_id)
