"""A partition's timeline, of registrations as the metadata log's rows say them.

I16: where its log starts. I17: its members. I27: the offsets of compaction are in order, and fall
by an unclean election only. Apart from `metadata.partition`, whose values assert what is checked
here: so a log with an invalid row can still be replayed, and its findings can be reported.

Replicas' tables hold no metadata offsets; they have leader epochs in common with the metadata log.
So a timeline consists of tenures, one a registration, and the audit compares a table's versions
with the tenures of the leader epoch that the table was fenced at.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import (
    LOST,
    BrokerId,
    DirectoryId,
    PartitionKey,
    ReplicaUuid,
    TopicPartition,
)
from kafka_on_spark.log.retention import has_delete

NO_LEADER: Final = -1
Row = Mapping[str, Any]
"""A record as columns of the metadata table (metadata/codec.py); null is None."""


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

    def uuid_of(self, broker_id: BrokerId | None) -> ReplicaUuid | None:
        for each, uuid in zip(self.replicas, self.replica_uuids, strict=False):
            if each == broker_id:
                return uuid
        return None

    def directory_of(self, broker_id: BrokerId) -> DirectoryId | None:
        for each, directory in zip(self.replicas, self.directories, strict=False):
            if each == broker_id:
                return directory
        return None

    def is_created(self, broker_id: BrokerId) -> bool:
        return self.directory_of(broker_id) not in (None, LOST)

    def members(self, broker_ids: Iterable[BrokerId]) -> frozenset[tuple[BrokerId, ReplicaUuid]]:
        return frozenset(
            (each, uuid) for each in broker_ids if (uuid := self.uuid_of(each)) is not None
        )


COMPACTION: Final = ("tombstones_below", "expiring_below", "cleaned_below", "compacted_below")
"""Offsets of compaction, none of which is above the next."""

_LISTS: Final = (
    "replicas",
    "replica_uuids",
    "former_uuids",
    "directories",
    "adding_replicas",
    "removing_replicas",
)
_SETS: Final = ("isr", "elr")
_VALUES: Final = (
    "leader",
    "high_watermark",
    "high_watermark_epoch",
    "high_watermark_chain",
    "unclean_generation",
    *COMPACTION,
)


def register_of(row: Row) -> Register:
    """Return the registration that a PartitionRecord's row says.

    Raises:
        TypeError, ValueError: The row lacks a value.
    """
    return Register(**{name: _read(name, row[name]) for name in Register.__slots__})


def _read(name: str, value: Any) -> Any:
    if name in _LISTS:
        return tuple(value)
    if name in _SETS:
        return frozenset(value)
    if name == "leader":
        return None if value == NO_LEADER else value
    if name == "high_watermark_epoch":
        return value
    if name == "high_watermark_chain":
        return str(value)
    return int(value or 0) if name in COMPACTION else int(value)


def changed(register: Register, row: Row) -> Register:
    """Return `register` after a PartitionChangeRecord's row; null means unchanged.

    Naming a leader begins a leadership, and each change but a compaction decision raises the
    partition epoch: the epochs in the row are not read.
    """
    given = (name for name in (*_LISTS, *_SETS, *_VALUES) if row[name] is not None)
    values = {name: _read(name, row[name]) for name in given}
    if "leader" in values:
        values["leader_epoch"] = register.leader_epoch + 1
    is_compaction = row["compacted_below"] is not None and row["high_watermark"] is None
    values["partition_epoch"] = register.partition_epoch + (not is_compaction)
    return replace(register, **values)


def membership_flaws(register: Register) -> Iterable[str]:
    replicas = set(register.replicas)
    isr, elr = sorted(register.isr), sorted(register.elr)
    if not replicas:
        yield "the partition has no replica"
    if len(replicas) < len(register.replicas):
        yield f"replicas {list(register.replicas)} name a broker twice"
    lists = (
        register.replica_uuids,
        register.directories,
        register.former_uuids or register.replicas,
    )
    sizes = {len(register.replicas), *map(len, lists)}
    if len(sizes) > 1:
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


def log_start_flaws(register: Register, start: int, settings: Settings | None) -> Iterable[str]:
    """Yield what is wrong with a log start that is decided (I16).

    `settings` are the topic's; None: a part of the log that may change them can't be read.
    """
    if start < register.log_start_offset:
        yield f"the log start went from {register.log_start_offset} back to {start}"
    if start > register.log_start_offset and settings is not None and not has_delete(settings):
        yield (
            f"records below {start} are deleted, and the topic's cleanup.policy is"
            f" {settings.text('cleanup.policy')!r}"
        )


def compaction_flaws(before: Register | None, after: Register) -> Iterable[str]:
    names = (*COMPACTION, "high_watermark")
    for lower, upper in pairwise(names):
        if getattr(after, lower) > getattr(after, upper):
            yield f"{_worded(after, lower)} is above {_worded(after, upper)}"
    if before is None or after.unclean_generation > before.unclean_generation:
        return
    for name in COMPACTION:
        if getattr(after, name) < getattr(before, name):
            yield f"{_worded(after, name)} comes after {getattr(before, name)}"


def _worded(register: Register, name: str) -> str:
    return f"{name} {getattr(register, name)}"


Member = tuple[BrokerId, ReplicaUuid]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """A partition from one change of its registration to the next.

    Attributes:
        metadata_offset: The offset of the record that it begins with.
        leader: The leader and its replica's uuid, or None.
        leader_epoch: The leader's epoch.
        isr: The in-sync replicas, with replica uuids.
        complete: ISR and ELR: the replicas that must have every committed record.
        high_watermark_before: The high watermark when it began.
        high_watermark: The one when it ended, or now.
        high_watermark_epoch: Of the record below it.
        high_watermark_chain: Chain digest at it.
        unclean_generation: As in `metadata.partition.PartitionRegistration`.
    """

    metadata_offset: int
    leader: Member | None
    leader_epoch: int
    isr: frozenset[Member]
    complete: frozenset[Member]
    high_watermark_before: int
    high_watermark: int
    high_watermark_epoch: int | None
    high_watermark_chain: str
    unclean_generation: int

    @property
    def is_advanced(self) -> bool:
        return self.high_watermark > self.high_watermark_before


@dataclass(slots=True, kw_only=True)
class PartitionTimeline:
    """What the metadata log says of one partition.

    Attributes:
        key: The partition.
        name: Topic and number.
        tenures: Oldest first, since it was added.
        register: Its registration now; None before the first record.
        is_removed: It was removed, or its topic deleted.
    """

    key: PartitionKey
    name: TopicPartition
    tenures: list[Tenure] = field(default_factory=list)
    register: Register | None = None
    is_removed: bool = False

    @property
    def had_unclean_election(self) -> bool:
        """Whether an unclean election took place since it was added. One that was added again
        begins in a generation above 0."""
        first, last = self.tenures[0], self.tenures[-1]
        return last.unclean_generation > first.unclean_generation

    def take(self, register: Register, offset: int) -> None:
        self.register = register
        if self.is_removed:
            # It is added again: another partition of the number, whose epochs begin anew.
            self.tenures.clear()
            self.is_removed = False
        leader_uuid = register.uuid_of(register.leader)
        leader = None
        if register.leader is not None and leader_uuid is not None:
            leader = (register.leader, leader_uuid)
        self.tenures.append(
            Tenure(
                metadata_offset=offset,
                leader=leader,
                leader_epoch=register.leader_epoch,
                isr=register.members(register.isr),
                complete=register.members(register.isr | register.elr),
                high_watermark_before=register.high_watermark,
                high_watermark=register.high_watermark,
                high_watermark_epoch=register.high_watermark_epoch,
                high_watermark_chain=register.high_watermark_chain,
                unclean_generation=register.unclean_generation,
            )
        )

    def advance(self, register: Register) -> None:
        self.register = register
        self.tenures[-1] = replace(
            self.tenures[-1],
            high_watermark=register.high_watermark,
            high_watermark_epoch=register.high_watermark_epoch,
            high_watermark_chain=register.high_watermark_chain,
        )

    def copy(self) -> "PartitionTimeline":
        return replace(self, tenures=list(self.tenures))
