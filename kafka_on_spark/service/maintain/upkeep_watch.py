"""What one process has seen of upkeep: what was done, what fails or is left undone, and since when.

A round that fails is no reason for another to fail, so nothing else says it: without this, upkeep
that fails for ever is a line in a log. It is lost with the process; the next one sees it again.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from kafka_on_spark.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from kafka_on_spark.ids import BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock
from kafka_on_spark.query.moments import in_seconds
from kafka_on_spark.service.maintain.upkeep_work import UPKEEP, UpkeepResult

LEFT_INTERVALS: Final = 10
"""Work that is left for so many of log.cleaner.interval.ms, in each of which rounds come by, is
more than the share does."""

LEFT: Final = ""
"""Of a kind of work that has not failed, and was left for another round."""

ROUND: Final = "round"
"""The kind of work that stands for all of a round."""

PASSING: Final = (FencedLeaderEpochError, UnknownLeaderEpochError, NotLeaderOrFollowerError)
"""Of a look at a log: what a new leader, or a newer image, ends by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepTrouble:
    """A kind of upkeep that fails, or is left for long.

    Attributes:
        topic: The topic's name; empty: it concerns all.
        partition: The partition's number; -1: it concerns all.
        broker_id: The replica; None: a decision on the partition.
        kind: The kind of work.
        error: Why it fails; empty: it is left, round after round.
        since_ms: Since when this process has seen it so, ms since 1970 UTC.
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
        if self.error:
            return f"{place}: {self.kind} fails {since}: {self.error}"
        return f"{place}: {self.kind} is left {since}: more is due than log.cleaner.share does"


_Place = tuple[PartitionKey | None, BrokerId | None]


@dataclass(frozen=True, slots=True)
class _Seen:
    since_ms: int
    outcome: str
    may_pass: bool


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCleaning:
    """The last tasks in which a process had replicas compacted.

    Attributes:
        read_bytes: Bytes of the segments that they replaced.
        written_bytes: Bytes that they wrote in place of these.
        buffer_percent: Of log.cleaner.dedupe.buffer.size, what the keys took, at most.
        took_ms: How long the longest of them took.
    """

    read_bytes: int = 0
    written_bytes: int = 0
    buffer_percent: float = 0.0
    took_ms: float = 0.0


class UpkeepWatch:
    """What was done, and what fails or is left, of one process. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[_Place, dict[str, _Seen]] = {}
        self._totals: dict[str, UpkeepTotal] = {}
        self._last_run_ms: int | None = None
        self.last_cleaning = LastCleaning()

    def take(self, results: Iterable[UpkeepResult]) -> None:
        """Record what tasks did on replicas."""
        compacted = []
        for result in results:
            outcomes = {UPKEEP: None, **result.outcomes}
            self.record(result.key, result.broker_id, outcomes)
            for kind, work in result.done:
                self.count(kind, work.count, work.size_bytes, work.written_bytes, bool(work.error))
                if kind == "compact" and work.count:
                    compacted.append((work, result.took_ms))
        with self._lock:
            self._last_run_ms = self._clock.monotonic_ms()
            if compacted:
                self.last_cleaning = LastCleaning(
                    read_bytes=sum(work.size_bytes for work, _ in compacted),
                    written_bytes=sum(work.written_bytes for work, _ in compacted),
                    buffer_percent=max(work.buffer_percent for work, _ in compacted),
                    took_ms=max(took_ms for _, took_ms in compacted),
                )

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

    @property
    def since_last_run_ms(self) -> int | None:
        """How long ago replicas were last visited for upkeep; None: they were not."""
        last_ms = self._last_run_ms
        return None if last_ms is None else self._clock.monotonic_ms() - last_ms

    def record(
        self,
        key: PartitionKey | None,
        broker_id: BrokerId | None,
        outcomes: Mapping[str, str | None],
        *,
        may_pass: bool = False,
    ) -> None:
        """Record of each kind of work that was tried why it failed; LEFT: it did not, and more is
        due; None: all that was due is done. `key`: None for all partitions. `may_pass`: a failure
        counts once it has lasted as long as what is left may."""
        now_ms = self._clock.now_ms()
        with self._lock:
            seen = self._seen.pop((key, broker_id), {})
            for kind, outcome in outcomes.items():
                before = seen.pop(kind, None)
                if outcome is None:
                    continue
                now = _Seen(now_ms, outcome, may_pass or outcome == LEFT)
                if before is not None and before.may_pass == now.may_pass:
                    now = replace(now, since_ms=before.since_ms)
                seen[kind] = now
            if seen:
                self._seen[key, broker_id] = seen

    def current(self, image: MetadataImage) -> list[UpkeepTrouble]:
        """Return what fails, and what has been left for long, of replicas whose brokers are online
        and that `image` still has."""
        left_ms = LEFT_INTERVALS * image.settings().integer("log.cleaner.interval.ms")
        left_before_ms = self._clock.now_ms() - left_ms
        with self._lock:
            self._seen = {
                place: seen for place, seen in self._seen.items() if _is_there(image, *place)
            }
            found = [
                _trouble(image, place, kind, each)
                for place, seen in self._seen.items()
                for kind, each in seen.items()
                if not each.may_pass or each.since_ms <= left_before_ms
            ]
        order = attrgetter("topic", "partition")
        return sorted(found, key=lambda each: (*order(each), each.broker_id or 0, each.kind))


def _trouble(image: MetadataImage, place: _Place, kind: str, seen: _Seen) -> UpkeepTrouble:
    key, broker_id = place
    name = TopicPartition("", -1) if key is None else image.name_of(key)
    return UpkeepTrouble(
        topic=name.topic,
        partition=name.partition,
        broker_id=broker_id,
        kind=kind,
        error=seen.outcome,
        since_ms=seen.since_ms,
    )


def _is_there(image: MetadataImage, key: PartitionKey | None, broker_id: BrokerId | None) -> bool:
    if key is None:
        return True
    partition = image.partition(key)
    if partition is None or broker_id is None:
        return partition is not None
    broker = image.brokers.get(broker_id)
    is_online = broker is not None and broker.is_online
    return is_online and broker_id in partition.replicas and partition.is_created(broker_id)
