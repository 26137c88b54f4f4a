"""I6 to I9, I16, I17, I27: what must hold of a partition's registrations, one after the other.

Simulation and search hold their registers to the same rules.

Apart from `metadata.partition`, whose values assert what is checked here: so a log with an invalid
row can still be replayed, and its findings can be reported.

Replicas' tables hold no metadata offsets; they have leader epochs in common with the metadata log.
So a timeline consists of tenures, one a registration, and the audit compares a table's versions
with the tenures of the leader epoch that the table was fenced at.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import (
    LOST,
    BrokerId,
    DirectoryId,
    PartitionKey,
    ReplicaUuid,
    TopicPartition,
)
from kafka_on_spark.metadata.partition import Compaction, PartitionRegistration

NONE: Final = -1
Row = Mapping[str, Any]
"""A record as columns of the metadata table (metadata/records.py); null is None."""

Member = tuple[BrokerId, ReplicaUuid]
Flaw = tuple[str, str]
"""An invariant, and a sentence that says how it does not hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A partition's registration. Fields as in `metadata.partition.PartitionRegistration`."""

    replicas: tuple[BrokerId, ...]
    replica_uuids: tuple[ReplicaUuid, ...]
    former_uuids: tuple[ReplicaUuid | None, ...]
    directories: tuple[DirectoryId | None, ...]
    isr: frozenset[BrokerId]
    elr: frozenset[BrokerId]
    leader: BrokerId | None
    leader_epoch: int
    partition_epoch: int
    adding_replicas: tuple[BrokerId, ...]
    removing_replicas: tuple[BrokerId, ...]
    high_watermark: int
    high_watermark_epoch: int | None
    high_watermark_chain: str
    log_start_offset: int
    unclean_generation: int
    compacted_below: int = 0
    cleaned_below: int = 0
    expiring_below: int = 0
    tombstones_below: int = 0

    def uuid_of(self, broker_id: BrokerId) -> ReplicaUuid | None:
        return dict(zip(self.replicas, self.replica_uuids, strict=False)).get(broker_id)

    def directory_of(self, broker_id: BrokerId) -> DirectoryId | None:
        return dict(zip(self.replicas, self.directories, strict=False)).get(broker_id)

    def is_created(self, broker_id: BrokerId) -> bool:
        return self.directory_of(broker_id) not in (None, LOST)

    def members(self, broker_ids: Iterable[BrokerId]) -> frozenset[Member]:
        return frozenset(
            (each, uuid) for each in broker_ids if (uuid := self.uuid_of(each)) is not None
        )

    @property
    def leading(self) -> Member | None:
        return next(iter(self.members(() if self.leader is None else (self.leader,))), None)

    @property
    def complete(self) -> frozenset[Member]:
        """ISR and ELR: the replicas that must have every committed record."""
        return self.members(self.isr | self.elr)


Registered = Register | PartitionRegistration

COMPACTION: Final = ("tombstones_below", "expiring_below", "cleaned_below", "compacted_below")
"""Offsets of compaction, none of which is above the next."""

_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("replicas", "replica_uuids", "former_uuids", "directories"), tuple),
    **dict.fromkeys(("adding_replicas", "removing_replicas"), tuple),
    **dict.fromkeys(("isr", "elr"), frozenset),
    **dict.fromkeys(
        ("leader", "high_watermark_epoch"), lambda value: None if value == NONE else value
    ),
    "high_watermark": int,
    "high_watermark_chain": str,
    "unclean_generation": int,
    **dict.fromkeys(COMPACTION, lambda value: int(value or 0)),
}
"""How a register's field is read from a row's column, of those that a change may say."""


def register_of(row: Row) -> Register:
    """Return the registration that a PartitionRecord's row says; raise TypeError or ValueError if
    it lacks a value."""
    return Register(**{name: _READ.get(name, int)(row[name]) for name in Register.__slots__})


def changed(register: Register, row: Row) -> Register:
    """Return `register` after a PartitionChangeRecord's row; null means unchanged. Naming a leader
    begins a leadership, and each change but a compaction decision raises the partition epoch: the
    epochs in the row are not read."""
    values = {name: read(row[name]) for name, read in _READ.items() if row[name] is not None}
    if "leader" in values:
        values["leader_epoch"] = register.leader_epoch + 1
    is_compaction = row["compacted_below"] is not None and row["high_watermark"] is None
    values["partition_epoch"] = register.partition_epoch + (not is_compaction)
    return replace(register, **values)


def state_flaws(register: Registered) -> Iterator[Flaw]:
    """Yield what is wrong with a registration by itself."""
    for sentence in _membership_flaws(register):
        yield "I17", sentence
    if register.log_start_offset > register.high_watermark:
        start, mark = register.log_start_offset, register.high_watermark
        sentence = f"the log start {start} is above the high watermark {mark}"
        yield "I9", sentence
        yield "I16", sentence


def _membership_flaws(register: Registered) -> Iterator[str]:
    replicas = set(register.replicas)
    isr, elr = sorted(register.isr), sorted(register.elr)
    if not replicas:
        yield "the partition has no replica"
    if len(replicas) < len(register.replicas):
        yield f"replicas {list(register.replicas)} name a broker twice"
    former = register.former_uuids or register.replicas
    lists = (register.replicas, register.replica_uuids, register.directories, former)
    if len({*map(len, lists)}) > 1:
        yield "replicas, replica uuids and directories are not as many"
    if not register.isr <= replicas:
        yield f"the ISR {isr} is not within the replicas {list(register.replicas)}"
    if not register.elr <= replicas - register.isr:
        yield f"the ELR {elr} is not within the replicas outside the ISR"
    if register.leader is not None and register.leader not in register.isr:
        yield f"the leader {register.leader} is not in the ISR {isr}"
    moving = {*register.adding_replicas, *register.removing_replicas}
    if not moving <= replicas:
        yield f"the brokers {sorted(moving - replicas)} are added or removed, and no replicas"


def step_flaws(before: Registered, after: Registered) -> Iterator[Flaw]:
    """Yield what is wrong with the step from one registration to the next."""
    if after.leader_epoch < before.leader_epoch:
        yield "I7", f"leader epoch {after.leader_epoch} comes after {before.leader_epoch}"
    if after.leader_epoch == before.leader_epoch:
        if after.leader != before.leader:
            leaders = f"{before.leader} and {after.leader}"
            yield "I6", f"leader epoch {after.leader_epoch} has two leaders, {leaders}"
        target = set(before.replicas) - set(before.removing_replicas)
        if before.removing_replicas and set(after.replicas) == target:
            yield "I7", "a reassignment was completed without a new leader epoch"
    generation = before.unclean_generation
    if after.unclean_generation < generation:
        yield "I8", f"unclean generation {after.unclean_generation} comes after {generation}"
    was, mark = before.high_watermark, after.high_watermark
    if after.unclean_generation == generation and mark < was:
        sentence = f"the high watermark fell from {was} to {mark} within unclean generation"
        yield "I8", f"{sentence} {generation}"


def isr_flaws(before: Registered, high_watermark: int, min_isr: int) -> Iterator[Flaw]:
    """Yield whether a high watermark moves though the ISR is below its minimum."""
    minimum = min(min_isr, len(before.replicas))
    if len(before.isr) < minimum:
        sentence = f"the high watermark moved to {high_watermark} with {len(before.isr)} in-sync"
        yield "I9", f"{sentence} replicas, of which {minimum} must be (min.insync.replicas)"


def log_start_flaws(before: Registered, start: int, settings: Settings | None) -> Iterator[Flaw]:
    """Yield what is wrong with a log start that is decided. `settings` are the topic's; None: a
    part of the log that may change them can't be read."""
    if start < before.log_start_offset:
        yield "I16", f"the log start went from {before.log_start_offset} back to {start}"
    if start <= before.log_start_offset or settings is None or "delete" in settings.policies:
        return
    policy = settings.text("cleanup.policy")
    yield "I16", f"records below {start} are deleted, and the topic's cleanup.policy is {policy!r}"


def compaction_flaws(
    before: Register | Compaction | None,
    after: Register | Compaction,
    high_watermark: int,
    *,
    may_lack: bool = False,
) -> Iterator[Flaw]:
    """Yield what is wrong with a decision of compaction; `before`: the one before it, None if an
    unclean election may have lowered it. `may_lack`: others between them may not be known."""
    now = [(name, getattr(after, name)) for name in COMPACTION]
    for (lower, low), (upper, high) in pairwise([*now, ("high_watermark", high_watermark)]):
        if low > high:
            yield "I27", f"{lower} {low} is above {upper} {high}"
    if before is None:
        return
    for name, value in now:
        if value < getattr(before, name):
            yield "I27", f"{name} {value} comes after {getattr(before, name)}"
    cleaned, finished = after.cleaned_below, before.compacted_below
    is_next = (after.compacted_below, cleaned) != (finished, before.cleaned_below)
    if is_next and cleaned != finished and not may_lack:
        yield "I27", f"cleaned_below {cleaned} follows a decision of compaction below {finished}"


class Tenure(NamedTuple):
    """A partition from one change of its registration to the next: as it began, and as it ended (or
    is now), with the high watermark and the log start moved."""

    begin: Register
    end: Register

    @property
    def is_advanced(self) -> bool:
        return self.end.high_watermark > self.begin.high_watermark


@dataclass(slots=True, kw_only=True)
class PartitionTimeline:
    """What the metadata log says of one partition: its tenures since it was added, oldest first,
    and whether it was removed, or its topic deleted."""

    key: PartitionKey
    name: TopicPartition
    tenures: list[Tenure] = field(default_factory=list)
    is_removed: bool = False

    @property
    def register(self) -> Register | None:
        """Its registration now; None: it has none."""
        return self.tenures[-1].end if self.tenures and not self.is_removed else None

    @property
    def had_unclean_election(self) -> bool:
        """Whether an unclean election took place since it was added. One that was added again
        begins in a generation above 0."""
        first, last = self.tenures[0].begin, self.tenures[-1].end
        return last.unclean_generation > first.unclean_generation

    def take(self, register: Register) -> None:
        if self.is_removed:
            # It is added again: another partition of the number, whose epochs begin anew.
            self.tenures.clear()
            self.is_removed = False
        self.tenures.append(Tenure(register, register))

    def advance(self, register: Register) -> None:
        self.tenures[-1] = self.tenures[-1]._replace(end=register)

    def copy(self) -> "PartitionTimeline":
        return replace(self, tenures=list(self.tenures))
