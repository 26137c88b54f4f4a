"""What is known to be true of each partition: what was committed, and which leader led when.

Kept beside the code under test, from the raw effects alone. Invariants compare the disks with it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_on_spark.base.ids import LOST, BrokerId, Offset, PartitionKey, ReplicaUuid
from kafka_on_spark.log.batch import Batch, LogPart
from kafka_on_spark.log.compaction import NO_PROGRESS, CompactionProgress
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import Compaction, PartitionRegistration
from tests.kept import kept_records
from tests.simulation.world.disks import Disks, Table, rows_of
from tests.simulation.world.keyed import keyed
from tests.simulation.world.scheduler import Violation

NOBODY_HAS = (-1, -1)
"""What stands in place of a committed record that was on no live disk when it was committed."""

Position = tuple[int, int]
"""(epoch, offset)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What was known of a partition when a client began.

    Attributes:
        high_watermark: The largest that a completed read had seen.
        acked: The largest acknowledged offset; -1 before the first.
        generation: How many unclean elections there had been: another one ends all promises.
        is_compacted: The topic was.
    """

    high_watermark: int = 0
    acked: int = -1
    generation: int = 0
    is_compacted: bool = False


@dataclass(slots=True)
class Log:
    """One partition.

    Attributes:
        committed: (value, epoch) by offset: what the high watermark has passed.
        offset_of: Offset of each committed value.
        leaders: The leader of each epoch.
        written: Of each (epoch, offset): the value, and the epoch before it.
        forgotten: Positions that a disk has lost: they may be written again.
        chains: What each chain digest stands for: the one before it, and the batch.
        batches: What was appended, by the chain digest at its end.
        acked: Offset and value of each acknowledged record.
        last_acked: The largest of those offsets; -1 before.
        sequences: Last committed sequence of each producer.
        next_sequences: What has to follow of each client of Kafka's protocol.
        high_watermark_read: The largest that a completed read has seen.
        unclean_generation: Of which `committed` speaks.
        decided: Every decision of compaction.
        cleaned_at: When each K of a decision of compaction was decided, by the true time.
        kept: Offsets that remain below decisions of compaction, as they were asked for.
        run_of: The producer epoch under which each committed value was appended, if it has one.
        last_ends: Where the last committed append of each producer ends, and under which epoch.
    """

    committed: list[tuple[int, int]] = field(default_factory=list)
    offset_of: dict[int, int] = field(default_factory=dict)
    leaders: dict[int, BrokerId | None] = field(default_factory=dict)
    written: dict[Position, tuple[int, int | None]] = field(default_factory=dict)
    forgotten: set[Position] = field(default_factory=set)
    chains: dict[str, tuple[str, int, tuple[str, ...]]] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    acked: dict[int, int] = field(default_factory=dict)
    last_acked: int = -1
    sequences: dict[str, int] = field(default_factory=dict)
    next_sequences: dict[str, int] = field(default_factory=dict)
    high_watermark_read: int = 0
    unclean_generation: int = 0
    decided: list[Compaction] = field(default_factory=list)
    cleaned_at: dict[int, float] = field(default_factory=dict)
    kept: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)
    run_of: dict[int, int] = field(default_factory=dict)
    last_ends: dict[str, tuple[int, int]] = field(default_factory=dict)

    def learn(self, records: Mapping[int, tuple[int, int]]) -> None:
        """Take what a disk has, by offset, where nobody else had it when it was committed."""
        for offset, record in records.items():
            if offset < len(self.committed) and self.committed[offset] == NOBODY_HAS:
                self.committed[offset] = record
                self.kept.clear()

    def restart(self, committed: list[tuple[int, int]]) -> None:
        """Begin again with what an unclean election has left."""
        self.committed = committed
        self.kept.clear()

    def is_kept(self, offset: int, compacted_below: int, tombstones_below: int) -> bool:
        """Return whether a replica has the record at `offset` that has finished a decision: a
        function of the whole log and the decision (I27)."""
        if offset >= compacted_below:
            return True
        place = (compacted_below, tombstones_below)
        if place not in self.kept:
            rows = ((at, value) for at, (value, _) in enumerate(self.committed[:compacted_below]))
            kept = kept_records(
                keyed(rows),
                compacted_below=Offset(compacted_below),
                tombstones_below=Offset(tombstones_below),
            )
            self.kept[place] = frozenset(each.offset for each in kept)
        return offset in self.kept[place]

    def is_asked(self, offset: int, compacted_below: int, tombstones_below: int) -> bool:
        """Return whether a reader must get the record at `offset`: it is kept, and an unclean
        election has not left the log without it."""
        is_known = offset >= len(self.committed) or self.committed[offset] != NOBODY_HAS
        return is_known and self.is_kept(offset, compacted_below, tombstones_below)

    def flaw_of(
        self,
        records: Mapping[int, tuple[int, int]],
        start: int,
        end: int,
        compaction: CompactionProgress | Compaction = NO_PROGRESS,
    ) -> str | None:
        """Return how records, by offset, are not what was committed from `start` to `end`; None: they
        are, but for what a replica may lack that is compacted as far as `compaction`."""
        below = (compaction.compacted_below, compaction.tombstones_below)
        for offset in range(start, end):
            wanted = self.committed[offset] if offset < len(self.committed) else None
            found = records.get(offset)
            if found is None and not self.is_kept(offset, *below):
                continue
            if found != wanted:
                return f"{found} at {offset}, committed is {wanted}"
        return None

    def leads_to(self, digest: str, later: str) -> bool:
        """Return whether a log whose chain digest is `later` goes through `digest`."""
        while later != digest and later in self.chains:
            later = self.chains[later][0]
        return later == digest


@dataclass(slots=True)
class Ledger:
    """All partitions, the disks they are on, and what may not be read.

    Attributes:
        failed: Values of appends that were refused: they must never be read (H4).
        invoked: Every value that a client ever tried to append.
        idempotent: Those that came with a producer.
        home_of: In which partition each committed value is.
        lost_tables: Replicas that were lost and created again, until the new incarnation is in sync.
        are_tombstones_timed: Clocks are right enough to judge when tombstones may go.
        producer_of: The producer id of each value that came with one.
        newest_run: The producer epoch under which each of these was appended last.
        expired_epochs: The epoch with which each producer id has expired last.
        alive_at_ms: When the last thing began that a producer or a group has done, by true time.
    """

    disks: Disks
    logs: dict[PartitionKey, Log] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    invoked: set[int] = field(default_factory=set)
    idempotent: set[int] = field(default_factory=set)
    home_of: dict[int, int] = field(default_factory=dict)
    lost_tables: dict[tuple[PartitionKey, BrokerId], set[ReplicaUuid]] = field(default_factory=dict)
    are_tombstones_timed: bool = True
    producer_of: dict[int, str] = field(default_factory=dict)
    newest_run: dict[int, int] = field(default_factory=dict)
    expired_epochs: dict[str, int] = field(default_factory=dict)
    alive_at_ms: dict[str, float] = field(default_factory=dict)

    def log(self, key: PartitionKey) -> Log:
        found = self.logs.get(key)
        if found is None:
            found = self.logs[key] = Log()
        return found

    def has_expired(self, producer_id: str, epoch: int) -> bool:
        return self.expired_epochs.get(producer_id, -1) >= epoch

    def is_forgotten(self, log: Log, value: int) -> bool:
        """Return whether a value's producer id has expired since it was appended: once its record
        is deleted, nobody knows of it any more."""
        epoch = log.run_of.get(value)
        return epoch is not None and self.has_expired(self.producer_of.get(value, ""), epoch)

    def appended(self, key: PartitionKey, parts: Iterable[LogPart]) -> list[Batch]:
        known, borders = self.log(key).batches, self.disks.borders
        digests = [
            digest
            for part in parts
            for digest in (
                [part.chain_digest]
                if isinstance(part, Batch)
                else [each.chain_digest for each in borders.get(part.segment.uuid, ())]
            )
        ]
        return [known[digest] for digest in digests if digest in known]

    @property
    def image(self) -> MetadataImage:
        return self.disks.image

    def live_table(
        self, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
    ) -> Table | None:
        """Return a replica's table if it is live: made, not lost, of the uuid and the disk of
        the image, and its disk has not lost commits."""
        directory = partition.directory_of(broker_id)
        if directory in (None, LOST) or directory != self.disks.root_of(broker_id).directory_id:
            return None
        table = self.disks.replica_table(partition, key, broker_id)
        return None if table is None or table.is_suspect else table


def chain_link(before: str, batch: Batch) -> tuple[str, int, tuple[str, ...]]:
    """Return what the chain digest of a batch stands for that was added behind a digest."""
    return before, int(batch.base_offset), tuple(each.uuid for each in batch.segments)


def records_of(state: ReplicaState, start: int, end: int) -> dict[int, tuple[int, int]]:
    """Return (value, epoch) of the records of ``[start, end)``, by offset."""
    return {
        at: (value, batch.leader_epoch)
        for batch in state.batches_between(start, end)
        for at, value in rows_of(batch)
        if start <= at < end
    }


def hold(where: object, flaws: Iterable[tuple[Any, ...]]) -> None:
    """Raise a violation for the first thing that `fsck` calls wrong, if anything is."""
    for invariant, sentence, *_ in flaws:
        raise Violation(invariant, f"{where}: {sentence}")


def require(holds: bool, invariant: str, message: str) -> None:
    """Raise a violation unless `holds`."""
    if not holds:
        raise Violation(invariant, message)
