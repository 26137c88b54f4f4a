"""What processes share: a register of metadata and three disks, and the effect of each port call.

A state is a tuple of numbers, so that millions can be told apart: the image, the disks, each
process, what was committed so far, and what the environment may still do.
"""

from dataclasses import dataclass, replace
from typing import Any

from kafka_on_spark.errors import KafkaStorageError, ReplicaLostError
from kafka_on_spark.ids import LOST, BrokerId, DirectoryId, LeaderEpoch, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Record,
)
from tests.builders import KEY, disk, identity, image_of, partition
from tests.search.replaying import STAMP, Images, Numbers, Raised, States, with_partition_epoch
from tests.search.scope import Scope

BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
PARTITION_EPOCH = 1
"""Of the newest image, always: which processes have an older one is told by their flags."""

OFFSET = Offset(100)
NO_DISK = DirectoryId("none")
"""Identity of a disk that was wiped."""

Entry = tuple[str, int]
"""(value, epoch) of a record."""


class Violation(Exception):  # noqa: N818 - the domain's word
    """An invariant does not hold."""

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
    """

    directory_id: DirectoryId
    tables: tuple[tuple[str, int], ...] = ()

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
        """Return the image of a partition that has been led by broker 1, with all in sync."""
        registration = partition("1 2 3", epoch=0, version=PARTITION_EPOCH)
        settings = {
            "min.insync.replicas": str(self.scope.min_isr),
            "replica.verdict.delay.ms": "0",  # a step of a search takes no time
        }
        producer = self.scope.producer
        runs = {} if producer is None else {producer.producer_id: producer.producer_epoch}
        image = image_of(registration, configs=settings, producers=runs)
        return self.images.number(image)

    def first_disk(self, broker_id: int) -> int:
        """Return a disk with an empty replica that has adopted the first leadership."""
        state = ReplicaState(identity=identity(broker_id), leader_epoch=LeaderEpoch(0))
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
        """Return a disk's number."""
        return self.disks.of(each, each)

    def past_number(self, past: Past) -> int:
        """Return a past's number."""
        return self.pasts.of(past, past)

    def image_after(
        self, image: MetadataImage, records: tuple[Record, ...], local_epoch: int
    ) -> tuple[MetadataImage, int]:
        """Return the image after a commit that was decided on it, and its partition epoch.

        `local_epoch`: what the committer calls the partition's epoch of now.
        """
        known = tuple(_translated(each, local_epoch) for each in records)
        batch = MetadataBatch(base_offset=image.offset, stamp=STAMP, records=known)
        after = image.replay(batch)
        moved = after.partition(KEY)
        assert moved is not None
        epoch = moved.partition_epoch
        changes = sum(isinstance(each, PartitionChangeRecord) for each in records)
        require(
            epoch == PARTITION_EPOCH + changes,
            "I7 epochs of the register",
            f"{changes} changes, and the partition epoch grew by {epoch - PARTITION_EPOCH}",
        )
        return replace(with_partition_epoch(after, PARTITION_EPOCH), offset=OFFSET), epoch

    def registration(self, image: int) -> PartitionRegistration:
        """Return the partition in an image."""
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


def _translated(record: Record, local_epoch: int) -> Record:
    """Return `record` with the partition epoch that others know."""
    if isinstance(record, HighWatermarkRecord):
        epoch = record.partition_epoch - local_epoch + PARTITION_EPOCH
        return replace(record, partition_epoch=epoch)
    return record


def value_of(batch: Batch) -> str:
    """Return the record of a batch: a batch has one here."""
    return batch.segments[0].uuid[0]


def entries_of(state: ReplicaState) -> tuple[Entry, ...]:
    """Return the records of a log."""
    return tuple((value_of(batch), batch.leader_epoch) for batch in state.batches)


def committed_by(state: ReplicaState, change: LogChange) -> ReplicaState:
    """Return the state after a commit."""
    return replace(state.apply(change), version=0)
