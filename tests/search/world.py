"""What processes share: a register of metadata and three disks, and the effect of each port call.

A state is a tuple of numbers, so that millions can be told apart: the image, the disks, each
process, what was committed so far, and what the environment may still do.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_on_spark.base.errors import KafkaStorageError, ReplicaLostError
from kafka_on_spark.base.ids import (
    LOST,
    BrokerId,
    DirectoryId,
    ImpossibleValueError,
    LeaderEpoch,
    Offset,
)
from kafka_on_spark.log.batch import epoch_in_name
from kafka_on_spark.log.state import LogChange, ReplicaAddress, ReplicaState
from kafka_on_spark.log.unnamed_files import files_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Record,
)
from tests.builders import KEY, disk, identity, image_of, log, partition
from tests.search.replaying import STAMP, Images, Numbers, Raised, States, with_partition_epoch
from tests.search.scope import Scope

BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
PARTITION_EPOCH = 1
"""Of the newest image, always: which processes have an older one is told by their flags."""

OFFSET = Offset(100)
NO_DISK = DirectoryId("none")
"""Identity of a disk that was wiped."""

Entry = tuple[str, int]
"""(value, epoch) of a record: a letter, with which the uuid of its file begins."""


def entries_of(state: ReplicaState) -> tuple[Entry, ...]:
    """Return the records of a log, in order: a batch has one."""
    return tuple((part.segments[0].uuid[0], part.leader_epoch) for part in state.batches)


@dataclass(slots=True)
class Found:
    """What a search found.

    Attributes:
        violation: The invariant that does not hold, or None.
        message: The same in words.
        path: A way there, a step a line.
        is_whole: All states were visited.
        seen: How many states or answers are of some interesting kind.
    """

    states: int = 0
    violation: str | None = None
    message: str = ""
    path: tuple[str, ...] = ()
    is_whole: bool = False
    seen: Counter[str] = field(default_factory=Counter)


class Violation(Exception):  # noqa: N818 - the domain's word
    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant


def require(holds: bool, invariant: str, message: str) -> None:
    """Raise a violation unless `holds`."""
    if not holds:
        raise Violation(invariant, message)


@dataclass(frozen=True, slots=True)
class Disk:
    """One broker's disk.

    Attributes:
        directory_id: Its identity.
        tables: The number of each table's state, by replica uuid.
        removed: (replica uuid, file) of what tables have removed that is named under their fence:
            no other can be added there again.
    """

    directory_id: DirectoryId
    tables: tuple[tuple[str, int], ...] = ()
    removed: frozenset[tuple[str, str]] = frozenset()

    def table(self, address: ReplicaAddress) -> int | Raised:
        """Return the number of a table's state, or the error of opening it."""
        for uuid, number in self.tables:
            if uuid == address.replica_uuid:
                return number
        if self.directory_id != address.directory_id:
            return Raised(KafkaStorageError, "the root is not the disk it was")
        return Raised(ReplicaLostError, "there is no table")

    def with_table(self, uuid: str, number: int) -> "Disk":
        """Return the disk with a table's state replaced, or with a new table."""
        tables = {**dict(self.tables), uuid: number}
        return replace(self, tables=tuple(sorted(tables.items())))

    def removed_by(self, uuid: str) -> frozenset[str]:
        """Return the files that a table can't add again."""
        return frozenset(name for at, name in self.removed if at == uuid)

    def with_commit(self, before: ReplicaState, after: ReplicaState, number: int) -> "Disk":
        """Return the disk with a table's state, which has `number`, after a commit."""
        uuid, fence = before.identity.replica_uuid, after.leader_epoch or 0
        gone = {(uuid, name) for name in files_of(before) - files_of(after)}
        removed = frozenset(
            (at, name)
            for at, name in self.removed | gone
            if at != uuid or (epoch_in_name(name) or 0) >= fence
        )
        return replace(self.with_table(uuid, number), removed=removed)


@dataclass(frozen=True, slots=True)
class Past:
    """What is true for ever.

    Attributes:
        committed: Records by offset: what the high watermark has passed.
        leaders: The leader of each epoch, by epoch.
    """

    committed: tuple[Entry, ...] = ()
    leaders: tuple[BrokerId | None, ...] = (BrokerId(1),)


class World:
    """Images, states and disks by number, and the effects of commits."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.states = States()
        self.images = Images()
        self.disks = Numbers()
        self.pasts = Numbers()

    def first_image(self) -> int:
        """Return the image of a partition that has been led by broker 1."""
        scope = self.scope
        registration = partition(scope.replicas, epoch=0, version=PARTITION_EPOCH, hw=0, leo=0)
        producer = scope.producer
        runs = {} if producer is None else {producer.producer_id: producer.producer_epoch}
        image = image_of(
            registration,
            ids=scope.replicas,
            configs={"min.insync.replicas": str(scope.min_isr)},
            producers=runs,
        )
        # A step of a search takes no time.
        image = replace(image, configs={"replica.verdict.delay.ms": "0"})
        return self.images.number(image)

    def first_disk(self, broker_id: int) -> int:
        """Return a disk with a replica that has adopted the first leadership."""
        state = replace(log("", fence=0), identity=identity(broker_id))
        uuid = state.identity.replica_uuid
        return self.disk_number(Disk(disk(broker_id), ((uuid, self.states.number(state)),)))

    def with_made(
        self, disk_number: int, address: ReplicaAddress, leader_epoch: LeaderEpoch
    ) -> tuple[int, Any]:
        """Return a disk after the creation of a replica on it, and the answer."""
        each: Disk = self.disks.values[disk_number]
        if each.directory_id != address.directory_id:
            return disk_number, Raised(KafkaStorageError, "the root is not the disk it was")
        if not isinstance(each.table(address), Raised):
            return disk_number, "made"
        empty = self.states.number(
            ReplicaState(identity=address.identity, leader_epoch=leader_epoch)
        )
        return self.disk_number(each.with_table(address.replica_uuid, empty)), "made"

    def disk_number(self, each: Disk) -> int:
        return self.disks.of(each, each)

    def past_number(self, past: Past) -> int:
        return self.pasts.of(past, past)

    def image_after(
        self, image: MetadataImage, records: tuple[Record, ...], local_epoch: int
    ) -> tuple[MetadataImage, int]:
        """Return the image after a commit that was decided on it, and its partition epoch.

        `local_epoch`: what the committer calls the partition's epoch of now.
        """
        known = tuple(_translated(each, local_epoch) for each in records)
        batch = MetadataBatch(base_offset=image.offset, stamp=STAMP, records=known)
        try:
            after = image.replay(batch)
        except ImpossibleValueError as error:
            raise Violation("I9", str(error)) from error
        moved = after.partition(KEY)
        assert moved is not None
        epoch = moved.partition_epoch
        changes = sum(isinstance(each, PartitionChangeRecord) for each in records)
        require(
            epoch == PARTITION_EPOCH + changes,
            "I7",
            f"{changes} changes, and the partition epoch grew by {epoch - PARTITION_EPOCH}",
        )
        return replace(with_partition_epoch(after, PARTITION_EPOCH), offset=OFFSET), epoch

    def registration(self, image: int) -> PartitionRegistration:
        found: PartitionRegistration | None = self.images.values[image].partition(KEY)
        assert found is not None
        return found

    def live_state(
        self, registration: PartitionRegistration, each: Disk, broker_id: BrokerId
    ) -> ReplicaState | None:
        """Return the log of a replica that counts: made, not lost, on the disk of the image."""
        directory = registration.directory_of(broker_id)
        if directory in (None, LOST) or directory != each.directory_id:
            return None
        number = dict(each.tables).get(registration.uuid_of(broker_id))
        return None if number is None else self.states.values[number]


def past_after(
    past: Past,
    before: PartitionRegistration,
    after: PartitionRegistration,
    logs: dict[BrokerId, ReplicaState],
) -> Past:
    """Return what is true for ever once a commit to the register has led from `before` to `after`:
    what the high watermark passes is committed."""
    if after.leader_epoch > before.leader_epoch:
        past = replace(past, leaders=(*past.leaders, after.leader))
    if after.high_watermark == before.high_watermark:
        return past
    members = [before.leader, *sorted(before.isr)]
    found = [log for each in members if each and (log := logs.get(each)) is not None]
    long = [log for log in found if log.log_end_offset >= after.high_watermark]
    require(bool(long), "I9", f"nobody has {after.high_watermark} records")
    added = entries_of(long[0])[before.high_watermark : after.high_watermark]
    return replace(past, committed=past.committed + added)


def _translated(record: Record, local_epoch: int) -> Record:
    """Return `record` with the partition epoch that others know."""
    if isinstance(record, HighWatermarkRecord):
        epoch = record.partition_epoch - local_epoch + PARTITION_EPOCH
        return replace(record, partition_epoch=epoch)
    return record


def committed_by(state: ReplicaState, change: LogChange) -> ReplicaState:
    """Return the state after a commit, without its version."""
    return replace(state.apply(change), version=0)
