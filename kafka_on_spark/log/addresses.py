"""Where a replica is, and which incarnation of it: its address by the image, or by its path."""

from dataclasses import dataclass, field
from typing import Final

from kafka_on_spark.base.ids import BrokerId, DirectoryId, PartitionKey, ReplicaUuid
from kafka_on_spark.log.state import ReplicaIdentity
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration

DELETE_DELAY_MS: Final = 3_600_000
"""The default of file.delete.delay.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAddress:
    """Where a replica is and which one it must be. Picklable: tasks get these.

    Attributes:
        root: URL of the broker's root.
        topic: The topic's name, for people who read the folder's path.
        directory_id: The disk that it was created on, or is to be created on.
        replica_uuid: This incarnation of the replica.
        is_flushed: Every commit is flushed before it counts (flush.messages=1).
        delete_delay_ms: How long what it removes stays (file.delete.delay.ms), if it is to be
            created.
        registered_voters: Of the metadata log that names the replica, all that it ever had: the
            root must obey one of them to be fenced or deleted from.
    """

    root: str
    topic: str
    key: PartitionKey
    broker_id: BrokerId
    directory_id: DirectoryId
    replica_uuid: ReplicaUuid
    is_flushed: bool = True
    delete_delay_ms: int = field(default=DELETE_DELAY_MS, compare=False)
    registered_voters: tuple[str, ...] = field(default=(), compare=False)

    @property
    def identity(self) -> ReplicaIdentity:
        """What the table's properties must say."""
        return ReplicaIdentity(
            topic_id=self.key.topic_id,
            partition=self.key.partition,
            broker_id=self.broker_id,
            directory_id=self.directory_id,
            replica_uuid=self.replica_uuid,
        )


def address_of(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    broker_id: BrokerId,
    *,
    directory_id: DirectoryId | None = None,
) -> ReplicaAddress:
    """Return the address of the replica on `broker_id`.

    `directory_id` is the disk to create it on; None: the disk that it was created on.
    """
    created_on = directory_id or partition.directory_of(broker_id)
    assert created_on is not None, "a replica that was not created has no address"
    settings = image.settings(key.topic_id)
    return ReplicaAddress(
        root=image.brokers[broker_id].root,
        topic=image.topics[key.topic_id].name,
        key=key,
        broker_id=broker_id,
        directory_id=created_on,
        replica_uuid=partition.uuid_of(broker_id),
        is_flushed=settings.text("flush.messages") == "1",
        delete_delay_ms=settings.integer("file.delete.delay.ms"),
        registered_voters=image.registered_voters,
    )
