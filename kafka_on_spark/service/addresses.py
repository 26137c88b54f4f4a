"""Where a partition's replicas are, by the image."""

from kafka_on_spark.ids import BrokerId, DirectoryId, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import ReplicaAddress


def address_of(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    broker_id: BrokerId,
    *,
    directory_id: DirectoryId | None = None,
) -> ReplicaAddress:
    """Return the address of the replica on `broker_id`.

    `directory_id` is the disk to make it on; without it, the one it was made on.
    """
    made_on = directory_id or partition.directory_of(broker_id)
    assert made_on is not None, "a replica that was not made has no address"
    settings = image.settings(key.topic_id)
    return ReplicaAddress(
        root=image.brokers[broker_id].root,
        topic=image.topics[key.topic_id].name,
        key=key,
        broker_id=broker_id,
        directory_id=made_on,
        replica_uuid=partition.uuid_of(broker_id),
        is_flushed=settings.integer("flush.messages") == 1,
    )
