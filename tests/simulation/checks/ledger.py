"""What is known to be true of each partition: what was committed, and which leader led when.

Kept beside the code under test, from the raw effects alone. Invariants compare the disks with it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_on_spark.ids import LOST, BrokerId, PartitionKey, ReplicaUuid
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.simulation.world.disks import Disks, Table, rows_of
from tests.simulation.world.scheduler import Violation

NOBODY_HAS = (-1, -1)
"""What stands in place of a committed record that was on no live disk when it was committed."""

PATH_IS_NO_CLUSTER = "I25 a path is no cluster"
"""A process with an open cluster changes nothing in another that is created at its path."""

Position = tuple[int, int]
"""(epoch, offset)."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What was known of a partition when a client began.

    Attributes:
        high_watermark: The largest that a completed read had seen.
        acked: The largest acknowledged offset; -1 before the first.
        generation: How many unclean elections there had been: another one ends all promises.
    """

    high_watermark: int = 0
    acked: int = -1
    generation: int = 0


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
        high_watermark_read: The largest that a completed read has seen.
        unclean_generation: Of which `committed` speaks.
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
    high_watermark_read: int = 0
    unclean_generation: int = 0

    def learn(self, start: int, records: list[tuple[int, int]]) -> None:
        """Take what a disk has from `start` on where nobody else had it when it was committed."""
        for offset, record in enumerate(records, start):
            if offset < len(self.committed) and self.committed[offset] == NOBODY_HAS:
                self.committed[offset] = record

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
        seen: The "sometimes" counters.
    """

    disks: Disks
    logs: dict[PartitionKey, Log] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    invoked: set[int] = field(default_factory=set)
    idempotent: set[int] = field(default_factory=set)
    home_of: dict[int, int] = field(default_factory=dict)
    lost_tables: dict[tuple[PartitionKey, BrokerId], set[ReplicaUuid]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def log(self, key: PartitionKey) -> Log:
        """Return what is known of a partition."""
        found = self.logs.get(key)
        if found is None:
            found = self.logs[key] = Log()
        return found

    def forget(self) -> None:
        """Begin again: another cluster was created. Other topics have other ids."""
        self.home_of.clear()
        self.lost_tables.clear()

    def appended(self, key: PartitionKey, parts: Iterable[LogPart]) -> list[Batch]:
        """Return the batches that went into parts of a log, as they were appended."""
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
        """The metadata as they stand on the disk."""
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


def records_of(state: ReplicaState, start: int, end: int) -> list[tuple[int, int]]:
    """Return (value, epoch) of the records of ``[start, end)``."""
    records: list[tuple[int, int]] = []
    for batch in state.batches_between(start, end):
        rows = rows_of(batch)
        records.extend((value, batch.leader_epoch) for at, value in rows if start <= at < end)
    return records


def require(holds: bool, invariant: str, message: str) -> None:
    """Raise a violation unless `holds`."""
    if not holds:
        raise Violation(invariant, message)
