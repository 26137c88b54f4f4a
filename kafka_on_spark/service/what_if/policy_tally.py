"""Counts two timelines of one history: time without a leader, elections, losses, differences.

Apart from the replay, which decides: this module only counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kafka_on_spark.ids import (
    NO_CHAIN,
    BrokerId,
    ChainDigest,
    LeaderEpoch,
    Offset,
    PartitionKey,
    TopicPartition,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.query.moments import time_of
from kafka_on_spark.visible import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderDifference:
    """A time in which another broker, or none, would have led a partition.

    Attributes:
        name: The partition.
        start: When it began, UTC.
        end: When it ended; the time of the last commit if it has not ended.
        recorded: The broker that led, or None.
        instead: The broker that would have led, or None.
        is_instead_dead: The broker that would have led did not answer: its session would not
            have ended yet.
        cause: The cause of the simulated decision, if there was one.
    """

    name: TopicPartition
    start: datetime
    end: datetime
    recorded: BrokerId | None
    instead: BrokerId | None
    is_instead_dead: bool
    cause: str | None

    @property
    def seconds(self) -> float:
        """How long."""
        return (self.end - self.start).total_seconds()

    def __str__(self) -> str:
        instead = f"{_broker_name(self.instead)} would have"
        if self.is_instead_dead:
            instead = f"{_broker_name(self.instead)} still would have, though it did not answer"
        why = f" ({self.cause})" if self.cause else ""
        return visible(
            f"{self.name}, {self.start:%H:%M:%S} to {self.end:%H:%M:%S} UTC ({self.seconds:.1f} s):"
            f" {_broker_name(self.recorded)} led; {instead}{why}"
        )


def _broker_name(broker_id: BrokerId | None) -> str:
    return "nobody" if broker_id is None else f"broker {broker_id}"


@dataclass(slots=True, kw_only=True)
class PolicyFigures:
    """The figures of a timeline, recorded or simulated.

    Attributes:
        offline_seconds: Time without a leader that answers, summed over partitions; the session
            of each broker that was fenced is part of it.
        elections: Leaderships that began, the first of each partition not counted.
        unclean_elections: Those of them that could lose records.
        lost_records_max: Committed records that those lost, at most.
        refused_records: Committed records that acks=all would have refused or kept waiting,
            for want of replicas in sync or of a leader that answers. None of those recorded.
    """

    offline_seconds: float = 0.0
    elections: int = 0
    unclean_elections: int = 0
    lost_records_max: int = 0
    refused_records: int = 0


class Reach(NamedTuple):
    """How far a replica's log is known to go: what was committed when it was last in sync."""

    offset: Offset
    leader_epoch: LeaderEpoch | None
    chain_digest: ChainDigest


class _Pair(NamedTuple):
    """The leaders of a partition in both timelines."""

    recorded: BrokerId | None
    instead: BrokerId | None
    is_dead: bool


@dataclass(slots=True)
class _Timeline:
    """One of the two timelines, as last counted."""

    figures: PolicyFigures = field(default_factory=PolicyFigures)
    partitions: dict[PartitionKey, PartitionRegistration] = field(default_factory=dict)
    offline_since_ms: dict[PartitionKey, int] = field(default_factory=dict)

    def note(
        self,
        key: PartitionKey,
        now: PartitionRegistration | None,
        time_ms: int,
        *,
        is_dead: bool = False,
    ) -> None:
        before = self.partitions.get(key)
        if now is None:
            self.partitions.pop(key, None)
        else:
            self.partitions[key] = now
        if now is not None and before is not None:
            self.figures.elections += now.leader_epoch - before.leader_epoch
            if now.unclean_generation > before.unclean_generation:
                self.figures.unclean_elections += 1
                lost = before.high_watermark - now.high_watermark
                self.figures.lost_records_max += max(lost, 0)
        is_offline = now is not None and (now.leader is None or is_dead)
        if is_offline:
            self.offline_since_ms.setdefault(key, time_ms)
        elif key in self.offline_since_ms:
            self.end_offline(key, time_ms)

    def end_offline(self, key: PartitionKey, time_ms: int) -> None:
        since_ms = self.offline_since_ms.pop(key)
        self.figures.offline_seconds += max(time_ms - since_ms, 0) / 1000


class PolicyTally:
    """Counts both timelines, and remembers how far each replica is known to go."""

    def __init__(self) -> None:
        self.recorded = _Timeline()
        self.instead = _Timeline()
        self.causes: dict[PartitionKey, str | None] = {}
        self.differences: list[LeaderDifference] = []
        self._names: dict[PartitionKey, TopicPartition] = {}
        self._pairs: dict[PartitionKey, tuple[_Pair, int, str | None]] = {}
        self._reach: dict[tuple[PartitionKey, BrokerId], Reach] = {}

    def leaderless(self) -> set[PartitionKey]:
        """Return the partitions that have no leader, or a dead one, in the simulated timeline."""
        return set(self.instead.offline_since_ms)

    def reach(self, key: PartitionKey, broker_id: BrokerId) -> Reach:
        """Return how far a replica is known to go."""
        return self._reach.get((key, broker_id), Reach(Offset(0), None, NO_CHAIN))

    def add_undetected(self, recorded_seconds: float, instead_seconds: float) -> None:
        """Add time in which leaders did not answer and no process had noticed."""
        self.recorded.figures.offline_seconds += recorded_seconds
        self.instead.figures.offline_seconds += instead_seconds

    def note(
        self,
        keys: Iterable[PartitionKey],
        recorded: MetadataImage,
        instead: MetadataImage,
        dead: frozenset[BrokerId],
        time_ms: int,
    ) -> None:
        """Count where both timelines stand in `keys`."""
        for key in sorted(keys):
            was, would = recorded.partition(key), instead.partition(key)
            is_dead = would is not None and would.leader in dead
            self.recorded.note(key, was, time_ms)
            self.instead.note(key, would, time_ms, is_dead=is_dead)
            if would is not None:
                self._names[key] = instead.name_of(key)
                reach = Reach(
                    would.high_watermark, would.high_watermark_epoch, would.high_watermark_chain
                )
                for broker_id in would.isr:
                    self._reach[key, broker_id] = reach
            if was is None or would is None:
                self._end(key, time_ms)
                self._pairs.pop(key, None)
            else:
                self._compare(key, _Pair(was.leader, would.leader, is_dead), time_ms)

    def _compare(self, key: PartitionKey, pair: _Pair, time_ms: int) -> None:
        last = self._pairs.get(key)
        if last is not None and last[0] == pair:
            return
        self._end(key, time_ms)
        cause = self.causes.get(key)
        if last is not None and last[0].instead == pair.instead:
            cause = last[2]  # it is the recorded leader that changed
        self._pairs[key] = (pair, time_ms, cause)

    def _end(self, key: PartitionKey, time_ms: int) -> None:
        if key not in self._pairs:
            return
        pair, start_ms, cause = self._pairs[key]
        is_same = pair.recorded == pair.instead and not pair.is_dead
        if is_same or time_ms <= start_ms:
            return
        self.differences.append(
            LeaderDifference(
                name=self._names[key],
                start=time_of(start_ms),
                end=time_of(time_ms),
                recorded=pair.recorded,
                instead=pair.instead,
                is_instead_dead=pair.is_dead,
                cause=cause,
            )
        )

    def close(self, time_ms: int) -> None:
        """End the differences and offline times that have not ended."""
        for key in sorted(self._pairs):
            self._end(key, time_ms)
        self._pairs.clear()
        for timeline in (self.recorded, self.instead):
            for key in list(timeline.offline_since_ms):
                timeline.end_offline(key, time_ms)
        self.differences.sort(key=lambda each: (each.start, each.name))
