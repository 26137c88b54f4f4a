"""The registration of a partition: what the controller knows of it, how one change alters it, and
the map of a topic's registrations.

A topic's partitions stand in chunks, so that the cost of a change is its own size. An image is
replaced with every commit: if its partitions stood in a dict, an append to one of a million would
copy a million entries. Here images share chunks, and a change copies the chunks that it touches. A
chunk also remembers which of its partitions need work, and which brokers are in sync in any of them
or have a replica of any, so that a search skips the other chunks.
"""

from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from operator import attrgetter, le
from typing import Any, Final, Self, TypeVar

from kafka_on_spark.base.ids import (
    KEEP,
    LOST,
    NO_CHAIN,
    BrokerId,
    ChainDigest,
    DirectoryId,
    Keep,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionKey,
    ReplicaUuid,
    ensure,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The offsets of one compaction decision. None falls, but by an unclean election.

    What a replica keeps is a function of its log, `compacted_below` and `tombstones_below`: see
    `log.compaction.stays`. They only rise, so it does not matter which decisions a replica applies
    on the way to the newest.

    Attributes:
        compacted_below: Below it only the last record of each key is kept. At most the last stable
            offset.
        cleaned_below: The `compacted_below` of the decision before, which every member of the ISR
            had finished: what is older is gone from every replica that may be read.
        expiring_below: Tombstones below it go once `delete.retention.ms` have passed since
            `expiring_since_ms`; equal to `tombstones_below`: none are about to.
        tombstones_below: Below it no tombstone is kept.
        expiring_since_ms: When `expiring_below` was decided, by the latest of three clocks; 0
            if no tombstones are about to go.
    """

    compacted_below: Offset = Offset(0)
    cleaned_below: Offset = Offset(0)
    expiring_below: Offset = Offset(0)
    tombstones_below: Offset = Offset(0)
    expiring_since_ms: int = 0

    def __post_init__(self) -> None:
        ensure(
            0
            <= self.tombstones_below
            <= self.expiring_below
            <= self.cleaned_below
            <= self.compacted_below
            and self.expiring_since_ms >= 0,
            self,
        )

    @property
    def is_expiring(self) -> bool:
        return self.expiring_below > self.tombstones_below

    def may_count(self, finished_below: Offset) -> bool:
        """Return whether a replica that has finished so much may be read, join the ISR, or count as
        finished.

        Below `cleaned_below` nothing is left, on a replica that counts, of what a tombstone has
        deleted. So a tombstone may go from one replica without its key coming back on another.
        """
        return finished_below >= self.cleaned_below

    def continues(self, before: Self) -> bool:
        """Return whether no offset of this is below the one of `before`."""
        return (
            self.compacted_below >= before.compacted_below
            and self.cleaned_below >= before.cleaned_below
            and self.expiring_below >= before.expiring_below
            and self.tombstones_below >= before.tombstones_below
        )

    def lowered_to(self, high_watermark: Offset) -> Self:
        """Return this for a log that an unclean election has cut to `high_watermark`."""
        if self.compacted_below <= high_watermark:
            return self
        lowered = replace(
            self,
            compacted_below=high_watermark,
            cleaned_below=min(self.cleaned_below, high_watermark),
            expiring_below=min(self.expiring_below, high_watermark),
            tombstones_below=min(self.tombstones_below, high_watermark),
        )
        return lowered if lowered.is_expiring else replace(lowered, expiring_since_ms=0)


NOT_COMPACTED: Final = Compaction()
"""Of a partition for which no compaction was decided."""


K = TypeVar("K")
T = TypeVar("T")


def construct_many(cls: type[T], columns: Mapping[str, Iterable[object]], count: int) -> list[T]:
    """Return `count` values of a frozen dataclass with slots, their fields from `columns`: the one
    place that goes past constructors. A million calls of one would take longer than the rest of
    opening a cluster of a million partitions; here a loop in C fills each field for all values.

    Each field is in `columns`, with at least `count` values. The caller checks the invariants, for
    all values.
    """
    made: list[T] = list(map(object.__new__, repeat(cls, count)))
    for name, values in columns.items():
        deque(map(getattr(cls, name).__set__, made, values), maxlen=0)
    return made


class Memo(dict[K, T]):
    """What `make` returns, once for equal arguments, so that partitions share equal values."""

    def __init__(self, make: Callable[[K], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, given: K) -> T:
        made = self[given] = self._make(given)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """A change to one partition's registration; a field left at KEEP does not change.

    Source: Kafka's PartitionChangeRecord, where -2 stands for KEEP and -1 for None.
    `high_watermark`, `high_watermark_epoch` and `high_watermark_chain` change here only by an
    unclean election, and together. `compaction` changes alone, by a decision that takes no new
    partition epoch, or is lowered by an unclean election.
    """

    isr: frozenset[BrokerId] | Keep = KEEP
    elr: frozenset[BrokerId] | Keep = KEEP
    leader: BrokerId | Keep | None = KEEP
    replicas: tuple[BrokerId, ...] | Keep = KEEP
    replica_uuids: tuple[ReplicaUuid, ...] | Keep = KEEP
    former_uuids: tuple[ReplicaUuid | None, ...] | Keep = KEEP
    directories: tuple[DirectoryId | None, ...] | Keep = KEEP
    adding_replicas: tuple[BrokerId, ...] | Keep = KEEP
    removing_replicas: tuple[BrokerId, ...] | Keep = KEEP
    throttle_bytes_per_s: int | Keep | None = KEEP
    high_watermark: Offset | Keep = KEEP
    high_watermark_epoch: LeaderEpoch | Keep | None = KEEP
    high_watermark_chain: ChainDigest | Keep = KEEP
    unclean_generation: int | Keep = KEEP
    compaction: Compaction | Keep = KEEP

    @property
    def is_compaction(self) -> bool:
        """Whether it is a compaction decision, which changes nothing else."""
        return self.compaction is not KEEP and self.high_watermark is KEEP


def _is_below(compaction: Compaction, high_watermark: Offset) -> bool:
    return compaction is NOT_COMPACTED or compaction.compacted_below <= high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """One partition's assignment, leadership and committed end, as of one metadata offset.

    It is one compare-and-swap register: leader, epoch, ISR and high watermark change under one
    lock, because a high watermark of a stale ISR must not be committed after the ISR has changed.

    Attributes:
        replicas: Assigned brokers, in order of preference: the first is the *preferred leader*.
        replica_uuids: Parallel to `replicas`: the incarnation of each replica.
        directories: Parallel to `replicas`: the disk each was created on; None before its
            creation, LOST after it was lost.
        former_uuids: Parallel to `replicas`, or empty: the lost incarnation of a replica that was
            created again, the oldest of several, until the new one is in sync. Its table stays
            until then.
        isr: The replicas that hold every committed record.
        elr: Eligible leader replicas: out of the ISR, but known complete (KIP-966).
        leader: The broker that takes appends, or None while the partition is offline.
        leader_epoch: Leaderships so far (count, from 0). Fences a deposed leader.
        partition_epoch: Changes so far (count, from 0). The compare-and-swap token of
            AlterPartition (KIP-497).
        adding_replicas, removing_replicas: Of a reassignment under way.
        throttle_bytes_per_s: The rate of a reassignment under way, together with all that have the
            same rate; None: no limit. It ends with the reassignment.
        high_watermark: First offset not committed.
        high_watermark_epoch: Epoch of the record below the high watermark; None while
            nothing is committed.
        high_watermark_chain: Chain digest of the log at the high watermark.
        log_end_offset: The leader's log end as last recorded; if it is above the high watermark,
            there is work for replication. An unclean election sets both to the end of the new
            leader's log.
        log_start_offset: First offset kept, as decided.
        unclean_generation: Rises with each unclean election: within one, the HW never falls (I8).
            It begins at 0, or, once partitions of the topic were removed, at the metadata offset:
            above all that another partition of the number had, so that none is taken for it.
    """

    replicas: tuple[BrokerId, ...]
    replica_uuids: tuple[ReplicaUuid, ...]
    directories: tuple[DirectoryId | None, ...]
    isr: frozenset[BrokerId]
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    elr: frozenset[BrokerId] = frozenset()
    former_uuids: tuple[ReplicaUuid | None, ...] = ()
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    throttle_bytes_per_s: int | None = None
    high_watermark: Offset = Offset(0)
    high_watermark_epoch: LeaderEpoch | None = None
    high_watermark_chain: ChainDigest = NO_CHAIN
    log_end_offset: Offset = Offset(0)
    log_start_offset: Offset = Offset(0)
    unclean_generation: int = 0
    compaction: Compaction = NOT_COMPACTED

    def __post_init__(self) -> None:
        everyone = set(self.replicas)
        ensure(
            0 < len(everyone) == len(self.replicas)
            and len(self.replica_uuids) == len(self.replicas) == len(self.directories)
            and len(self.former_uuids) in (0, len(self.replicas))
            and self.isr <= everyone
            and self.elr <= everyone - self.isr
            and (self.leader is None or self.leader in self.isr)
            and everyone.issuperset(self.adding_replicas)
            and everyone.issuperset(self.removing_replicas)
            and self.log_start_offset <= self.high_watermark
            and self.compaction.compacted_below <= self.high_watermark,
            self,
        )

    @classmethod
    def from_columns(cls, columns: Mapping[str, Sequence[Any]], count: int) -> list[Self]:
        """Return `count` registrations, their fields from `columns`, one of each.

        They equal those of the constructor, in a fifth of its time. Its checks hold here, too: for
        most partitions they are a few comparisons.
        """
        constructed = construct_many(cls, columns, count)
        sizes = list(map(len, columns["replicas"]))
        ensure(
            sizes == list(map(len, columns["replica_uuids"]))
            and sizes == list(map(len, columns["directories"]))
            and all(map(le, columns["log_start_offset"], columns["high_watermark"]))
            and all(map(_is_below, columns["compaction"], columns["high_watermark"])),
            "registrations whose columns do not fit together",
        )
        names = ("replicas", "isr", "leader")
        others = ("elr", "former_uuids", "adding_replicas", "removing_replicas")
        has_others = map(any, zip(*(columns[name] for name in others), strict=True))
        rows = zip(constructed, has_others, *(columns[name] for name in names), strict=True)
        for registration, has_other, replicas, isr, leader in rows:
            everyone = set(replicas)
            holds = leader in isr and isr <= everyone and len(everyone) == len(replicas)
            if not holds or has_other:
                registration.__post_init__()
        return constructed

    def uuid_of(self, broker_id: BrokerId) -> ReplicaUuid:
        return self.replica_uuids[self.replicas.index(broker_id)]

    def directory_of(self, broker_id: BrokerId) -> DirectoryId | None:
        return self.directories[self.replicas.index(broker_id)]

    def former_of(self, broker_id: BrokerId) -> ReplicaUuid | None:
        if not self.former_uuids:
            return None
        return self.former_uuids[self.replicas.index(broker_id)]

    def is_created(self, broker_id: BrokerId) -> bool:
        """Return whether the replica on `broker_id` was created and not lost since."""
        return self.directory_of(broker_id) not in (None, LOST)

    @property
    def was_begun(self) -> bool:
        """Whether a replica was ever created, lost since or not: before, nothing was appended."""
        return any(each is not None for each in self.directories)

    @property
    def known_log_end(self) -> Offset:
        """The leader's log end by the metadata: at least the high watermark."""
        return max(self.high_watermark, self.log_end_offset)

    @property
    def begins_empty(self) -> bool:
        """Whether an unclean leader had no records from the log start on, and begins there."""
        return self.high_watermark > 0 and self.high_watermark_epoch is None

    @property
    def is_under_replicated(self) -> bool:
        """Whether fewer replicas are in sync than are assigned, without those being added.

        Source: kafka-topics' getReplicationFactor, OngoingReassignmentState.
        """
        return len(self.isr) < len(self.replicas) - len(self.adding_replicas)

    @property
    def needs_work(self) -> bool:
        """Whether work waits for it: another leads than the preferred leader, a replica is out of
        sync, lost or moving, or records are appended and not committed.

        In a healthy cluster nearly no partition needs work, and rounds visit those that do only.
        """
        return not (
            self.leader == self.replicas[0]
            and self.high_watermark == self.log_end_offset
            and len(self.isr) == len(self.replicas)
            and not (self.elr or self.adding_replicas or self.removing_replicas)
            and LOST not in self.directories
        )

    @property
    def target_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas that a reassignment under way leads to; without one, all."""
        return tuple(each for each in self.replicas if each not in self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas from before a reassignment under way; without one, all."""
        return tuple(each for each in self.replicas if each not in self.adding_replicas)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def completed(self, change: PartitionChange) -> PartitionChange:
        """Return `change` with what follows from it, decided here and nowhere else.

        A replica that joins the ISR has no former uuid any more: its former table may be under
        removal, and is never restored. An unassigned replica loses its former uuid, too. An unclean
        election lowers the offsets of compaction to its high watermark.
        """
        if isinstance(change.high_watermark, int):
            lowered = self.compaction.lowered_to(change.high_watermark)
            if lowered is not self.compaction:
                change = replace(change, compaction=lowered)
        if not self.former_uuids and change.former_uuids is KEEP:
            return change
        replicas = self.replicas if change.replicas is KEEP else change.replicas
        if change.former_uuids is KEEP:
            former = dict(zip(self.replicas, self.former_uuids, strict=True))
        else:
            former = dict(zip(replicas, change.former_uuids, strict=bool(change.former_uuids)))
        joining = frozenset() if change.isr is KEEP else change.isr - self.isr
        kept = tuple(None if each in joining else former.get(each) for each in replicas)
        after = kept if any(kept) else ()
        return replace(change, former_uuids=KEEP if after == self.former_uuids else after)

    def epochs_after(self, change: PartitionChange) -> tuple[LeaderEpoch, PartitionEpoch]:
        """Return the two epochs that `change` leads to: they advance here and nowhere else.

        A change that names a leader starts a new leadership, even with the same broker: in this way
        a reassignment fences fetchers that hold the old list of replicas. A compaction decision
        leaves both: what others decide meanwhile holds as well after it.
        """
        leadership_starts = change.leader is not KEEP
        return (
            LeaderEpoch(self.leader_epoch + leadership_starts),
            PartitionEpoch(self.partition_epoch + (not change.is_compaction)),
        )

    @classmethod
    def merge_each(
        cls, partitions: Sequence[Self], changes: Sequence[PartitionChange]
    ) -> list[Self]:
        """Return each of `partitions` with the change at its place applied, as `merge` does one
        by one: a failover merges tens of thousands."""
        columns = {name: list(map(attrgetter(name), partitions)) for name in cls.__slots__}
        # Many partitions share a change, and it sets few fields.
        distinct = {id(change): change for change in changes}.values()
        for name, source in _SOURCES.items():
            if any(getattr(change, source) is not KEEP for change in distinct):
                pairs = zip(columns[name], map(attrgetter(source), changes), strict=True)
                columns[name] = [own if new is KEEP else new for own, new in pairs]
        epochs = list(map(cls.epochs_after, partitions, changes))
        columns["leader_epoch"] = [leader_epoch for leader_epoch, _ in epochs]
        columns["partition_epoch"] = [partition_epoch for _, partition_epoch in epochs]
        return cls.from_columns(columns, len(partitions))

    def merge(self, change: PartitionChange) -> Self:
        leader_epoch, partition_epoch = self.epochs_after(change)
        changed = {
            name: new
            for name, source in _SOURCES.items()
            if (new := getattr(change, source)) is not KEEP
        }
        changed |= {"leader_epoch": leader_epoch, "partition_epoch": partition_epoch}
        return replace(self, **changed)


_SOURCES: Final = {
    **{name: name for name in PartitionChange.__slots__},
    "log_end_offset": "high_watermark",  # an unclean leader's log ends at its high watermark
}
"""The fields of a registration that a change sets, and its own that each follows."""


def has_all_committed(
    partition: PartitionRegistration,
    *,
    log_start_offset: Offset,
    log_end_offset: Offset,
    epoch_below_high_watermark: LeaderEpoch | None,
    chain_at_high_watermark: ChainDigest | None,
) -> bool:
    """Return whether a log proves to hold every committed record.

    Since the register's high watermark is the true one, the chain digest at it is proof for all
    records before it, if the log's chain computes. The digest is also checked if none of these
    records is kept: another log would answer retries of appends that were never committed.
    """
    if log_start_offset > partition.log_start_offset or log_end_offset < partition.high_watermark:
        return False
    if chain_at_high_watermark != partition.high_watermark_chain:
        return False
    if log_start_offset >= partition.high_watermark:
        return True
    return epoch_below_high_watermark == partition.high_watermark_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """A consumer group's saved position in one partition: the next record that it reads.

    Attributes:
        leader_epoch: Of the record before, or None if unknown.
        unclean_generation: That of the partition when it was saved: with another one, records may
            be lost that the group has processed.
        saved_at_ms: ms since 1970 UTC.
    """

    offset: Offset
    leader_epoch: LeaderEpoch | None
    unclean_generation: int = 0
    saved_at_ms: int = field(default=0, compare=False)


CHUNK_BITS: Final = 10
"""A chunk has 1,024 partitions, about as many as a topic of a million has chunks."""

CHUNK_SIZE: Final = 1 << CHUNK_BITS
MERGED_AT_ONCE_MIN: Final = 8
"""From so many changes on, merging field by field is faster than one by one."""

_MASK: Final = CHUNK_SIZE - 1

Numbered = tuple[int, PartitionRegistration]
Keyed = tuple[PartitionKey, PartitionRegistration]


class _Chunk:
    """Partitions with neighbouring numbers; None where there is none."""

    def __init__(self, partitions: Iterable[PartitionRegistration | None]) -> None:
        self.partitions = tuple(partitions)
        self._brokers: dict[str, frozenset[BrokerId]] = {}

    @cached_property
    def needing_work(self) -> Sequence[Numbered]:
        there = ((place, each) for place, each in enumerate(self.partitions) if each is not None)
        return [(place, each) for place, each in there if each.needs_work]

    def brokers(self, field: str) -> frozenset[BrokerId]:
        """Return the brokers that are in a field of any of them, `isr` or `replicas`."""
        if field not in self._brokers:
            # Thousands of partitions have few different ones.
            distinct = {getattr(each, field) for each in self.partitions if each is not None}
            self._brokers[field] = frozenset().union(*distinct)
        return self._brokers[field]


class PartitionMap(Mapping[int, PartitionRegistration]):
    """Registrations by partition number, in order of the numbers. Immutable; a draft makes it."""

    __slots__ = ("_chunks", "_count")

    def __init__(self, chunks: Mapping[int, _Chunk] | None = None, count: int = 0) -> None:
        self._chunks = chunks or {}
        self._count = count

    def __getitem__(self, number: int) -> PartitionRegistration:
        try:
            found = self._chunks[number >> CHUNK_BITS].partitions[number & _MASK]
        except (KeyError, IndexError, TypeError):
            found = None
        if found is None:
            raise KeyError(number)
        return found

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return (number for number, _ in self.items())

    def items(self) -> ItemsView[int, PartitionRegistration]:
        return _Items(self)

    def values(self) -> ValuesView[PartitionRegistration]:
        return _Values(self)

    def needing_work(self) -> Iterator[Numbered]:
        """Yield the partitions that need work: in a healthy topic, none is visited."""
        for chunk_number, chunk in self._chunks.items():
            for place, partition in chunk.needing_work:
                yield (chunk_number << CHUNK_BITS) + place, partition

    def where(self, field: str, broker_ids: frozenset[BrokerId]) -> Iterator[Numbered]:
        """Yield the partitions that have any of `broker_ids` in a field, `isr` or `replicas`."""
        for chunk_number, chunk in self._chunks.items():
            if chunk.brokers(field).isdisjoint(broker_ids):
                continue
            for number, partition in enumerate(chunk.partitions, chunk_number << CHUNK_BITS):
                if partition is not None and not broker_ids.isdisjoint(getattr(partition, field)):
                    yield number, partition

    def __repr__(self) -> str:
        return f"PartitionMap({dict(self.items())})"


class _Items(ItemsView[int, PartitionRegistration]):
    """A view of a map that needs no look-up for each entry."""

    _mapping: PartitionMap

    def __iter__(self) -> Iterator[Numbered]:
        for chunk_number, chunk in self._mapping._chunks.items():
            for number, partition in enumerate(chunk.partitions, chunk_number << CHUNK_BITS):
                if partition is not None:
                    yield number, partition


class _Values(ValuesView[PartitionRegistration]):
    """The same of the registrations alone."""

    _mapping: PartitionMap

    def __iter__(self) -> Iterator[PartitionRegistration]:
        return (partition for _, partition in self._mapping.items())


class PartitionMapDraft:
    """A map being changed: it copies a chunk once, at its first change."""

    def __init__(self, base: PartitionMap) -> None:
        self._base = base
        self._count = len(base)
        self._open: dict[int, list[PartitionRegistration | None]] = {}

    def get(self, number: int) -> PartitionRegistration | None:
        chunk = self._open.get(number >> CHUNK_BITS)
        if chunk is None:
            return self._base.get(number)
        place = number & _MASK
        return chunk[place] if place < len(chunk) else None

    def put(self, number: int, partition: PartitionRegistration | None) -> None:
        """Set the registration of a number; None: there is none any more."""
        chunk = self._open.get(number >> CHUNK_BITS)
        if chunk is None:
            base = self._base._chunks.get(number >> CHUNK_BITS)
            chunk = self._open[number >> CHUNK_BITS] = [] if base is None else [*base.partitions]
        place = number & _MASK
        if place >= len(chunk):
            chunk.extend([None] * (place + 1 - len(chunk)))
        self._count += (partition is not None) - (chunk[place] is not None)
        chunk[place] = partition

    def merge(self, changes: Sequence[tuple[int, PartitionChange]]) -> None:
        """Apply changes in order; a change of a number that does not exist is passed over."""
        by_number = dict(changes)
        if len(by_number) < len(changes) or len(changes) < MERGED_AT_ONCE_MIN:
            for number, change in changes:
                partition = self.get(number)
                if partition is not None:
                    self.put(number, partition.merge(change))
            return
        found = [(number, self.get(number)) for number in by_number]
        known = [(number, partition) for number, partition in found if partition is not None]
        merged = PartitionRegistration.merge_each(
            [partition for _, partition in known], [by_number[number] for number, _ in known]
        )
        for (number, _), partition in zip(known, merged, strict=True):
            self.put(number, partition)

    def finish(self) -> PartitionMap:
        chunks = dict(self._base._chunks)
        for chunk_number, opened in self._open.items():
            while opened and opened[-1] is None:
                opened.pop()
            if opened:
                chunks[chunk_number] = _Chunk(opened)
            else:
                chunks.pop(chunk_number, None)
        if list(chunks) != sorted(chunks):
            chunks = dict(sorted(chunks.items()))
        return PartitionMap(chunks, self._count)
