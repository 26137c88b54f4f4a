"""What one process has seen of upkeep: what was done, what fails or is left undone, and since when.

A round that fails is no reason for another to fail, so nothing else says it: without this, upkeep
that fails for ever is a line in a log. Processes tell each other by a small file, since one that
runs a round and ends may not come to a replica that another could not maintain.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, Protocol

from kafka_on_spark.controller.partitions.compaction import is_compacted
from kafka_on_spark.errors import (
    FencedLeaderEpochError,
    KafkaOnSparkError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from kafka_on_spark.ids import BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.log.upkeep.retention import limits_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.query.moments import in_seconds
from kafka_on_spark.service.maintain.upkeep_work import CLEAN, UPKEEP, UpkeepResult

log = logging.getLogger(__name__)

LEFT_INTERVALS: Final = 10
"""Work that is left for so many of log.cleaner.interval.ms, in each of which rounds come by, is
more than the share does."""

LEFT: Final = ""
"""Of a kind of work that has not failed, and was left for another round."""

TEXT_MAX: Final = 400
"""Characters of an error that are kept."""

RETENTION: Final = "retention"
COMPACTION: Final = "compaction"
ROUND: Final = "round"
"""The kind of work that stands for all of a round."""
ROOT: Final = "root"
"""The kind of work that cleans a broker's root of what killed processes left there."""

PASSING: Final = (FencedLeaderEpochError, UnknownLeaderEpochError, NotLeaderOrFollowerError)
"""Of a look at a log: what a new leader, or a newer image, ends by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepTrouble:
    """A kind of upkeep that fails, or is left for long.

    Attributes:
        topic: The topic's name; empty: it concerns all.
        partition: The partition's number; -1: it concerns all.
        broker_id: The replica, or the root; None: a decision on the partition.
        kind: The kind of work.
        error: Why it fails; empty: it is left, round after round.
        since_ms: Since when processes have seen it so, ms since 1970 UTC.
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
class Seen:
    """What a kind of work came to that did not do all that was due.

    Attributes:
        since_ms: Since when it does, ms since 1970 UTC.
        outcome: Why it fails; LEFT: it does not.
        may_pass: It counts once it has lasted as long as what is left may.
    """

    since_ms: int
    outcome: str
    may_pass: bool

    def after(self, before: "Seen | None") -> "Seen":
        """Return the same, since it was first seen so."""
        if before is None or before.may_pass != self.may_pass:
            return self
        return replace(self, since_ms=min(before.since_ms, self.since_ms))


Failures = Mapping[tuple[_Place, str], Seen]
"""What fails, by place and kind of work."""


class UpkeepNotes(Protocol):
    """Keeps what fails between processes, for people. It is never trusted."""

    def read(self, cluster_id: str) -> Failures:
        """Return what was noted last; nothing if there is no valid note.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        ...

    def write(self, cluster_id: str, failures: Failures) -> None:
        """Replace the last note.

        Raises:
            KafkaStorageError: The metadata root does not answer, or takes no writes.
        """
        ...


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
    """What was done, and what fails or is left, of one process. Threads may share it.

    `notes`: where processes tell each other what fails; None: nowhere.
    """

    def __init__(self, clock: Clock, notes: UpkeepNotes | None = None) -> None:
        self._notes = notes
        self._tried: dict[tuple[_Place, str], Seen | None] = {}
        self._has_news = False
        self._shared_at_ms: int | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[_Place, str], Seen] = {}
        self._totals: dict[str, UpkeepTotal] = {}
        self._last_run_ms: int | None = None
        self._orphans: dict[tuple[PartitionKey, BrokerId], int] = {}
        self.last_cleaning = LastCleaning()

    def take(self, results: Iterable[UpkeepResult]) -> None:
        """Record what tasks did on replicas."""
        compacted, orphans = [], {}
        for result in results:
            outcomes = {UPKEEP: None, **result.outcomes}
            self.record(result.key, result.broker_id, outcomes)
            for kind, work in result.done:
                self.count(kind, work.count, work.size_bytes, work.written_bytes, bool(work.error))
                if kind == CLEAN and not work.error:
                    orphans[result.key, result.broker_id] = work.orphan_bytes
                if kind == "compact" and work.count:
                    compacted.append((work, result.took_ms))
        with self._lock:
            self._last_run_ms = self._clock.monotonic_ms()
            self._orphans |= orphans
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
            place = (key, broker_id)
            for kind, outcome in outcomes.items():
                before = self._seen.pop((place, kind), None)
                now = None
                if outcome is not None:
                    waits = may_pass or outcome == LEFT
                    now = Seen(now_ms, outcome[:TEXT_MAX], waits).after(before)
                    self._seen[place, kind] = now
                failure = None if outcome == LEFT else now
                self._tried[place, kind] = failure
                failed = before is not None and before.outcome != LEFT
                self._has_news = self._has_news or failed != (failure is not None)

    def share(self, image: MetadataImage) -> None:
        """Note what fails for other processes, and take from them what they have noted.

        Seldom, unless there is news; without an answer of the metadata root not at all.
        """
        now_ms = self._clock.monotonic_ms()
        interval_ms = image.settings().integer("log.cleaner.interval.ms")
        with self._lock:
            last_ms = self._shared_at_ms
            is_due = last_ms is None or now_ms - last_ms >= interval_ms
            if self._notes is None or not (is_due or self._has_news):
                return
            try:
                self._exchange(self._notes, image)
            except KafkaOnSparkError as error:
                log.info("what of upkeep fails can't be noted: %s", error)
                return
            self._tried.clear()
            self._has_news, self._shared_at_ms = False, now_ms

    def _exchange(self, notes: UpkeepNotes, image: MetadataImage) -> None:
        noted = notes.read(image.cluster_id or "")
        failures = {name: each for name, each in noted.items() if name not in self._tried} | {
            name: each.after(noted.get(name))
            for name, each in self._tried.items()
            if each is not None
        }
        failures = {name: each for name, each in failures.items() if _is_tried(image, *name)}
        if failures != noted:
            notes.write(image.cluster_id or "", failures)
        left = {name: each for name, each in self._seen.items() if each.outcome == LEFT}
        self._seen = left | failures

    def current(self, image: MetadataImage) -> list[UpkeepTrouble]:
        """Return what fails, and what has been left for long, of replicas whose brokers are online
        and that `image` still has."""
        left_ms = LEFT_INTERVALS * image.settings().integer("log.cleaner.interval.ms")
        left_before_ms = self._clock.now_ms() - left_ms
        with self._lock:
            self._seen = {
                name: each for name, each in self._seen.items() if _is_tried(image, *name)
            }
            found = [
                _trouble(image, *name, each)
                for name, each in self._seen.items()
                if not each.may_pass or each.since_ms <= left_before_ms
            ]
        order = attrgetter("topic", "partition")
        return sorted(found, key=lambda each: (*order(each), each.broker_id or 0, each.kind))


def _trouble(image: MetadataImage, place: _Place, kind: str, seen: Seen) -> UpkeepTrouble:
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
