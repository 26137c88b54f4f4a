"""When another leads, since the leader can't be read; how a person calls a replica lost.

An error is no verdict, however long it lasts: the replica is not lost, and rejoins like any
follower once it can be read. But an unreadable leader would stop its partition for ever, since
only followers are measured by lag. Only a person decides that such a replica is lost.
"""

from kafka_on_spark.base.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import BrokerId, PartitionKey, ReplicaUuid
from kafka_on_spark.controller.partition_change import (
    change_of_isr,
    change_record,
    lost_change,
)
from kafka_on_spark.metadata.high_watermark import min_isr
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.result import ControllerResult


def leave_unreadable(
    image: MetadataImage,
    key: PartitionKey,
    leader: BrokerId,
    replica_uuid: ReplicaUuid,
    *,
    readable: frozenset[BrokerId],
    cause: str,
) -> ControllerResult[bool]:
    """Decide that a leader leaves ISR and leadership, if a member that is `readable` is left.

    Its directory stays, since the replica is not lost. Answer: whether it leaves.
    """
    nothing: ControllerResult[bool] = ControllerResult([], False)
    partition = image.partition(key)
    if partition is None or partition.leader != leader or partition.uuid_of(leader) != replica_uuid:
        return nothing
    change = change_of_isr(
        partition,
        partition.isr - {leader},
        leader=None,
        min_isr=min_isr(image, key.topic_id, partition),
        eligible=readable & partition.isr & image.eligible_brokers(),
        suspects=image.suspects,
    )
    if change is None or partition.merge(change).leader is None:
        return nothing
    return ControllerResult([change_record(image, key, partition, change, cause)], True)


def lose_replica(
    image: MetadataImage, key: PartitionKey, broker_id: BrokerId, cause: str
) -> ControllerResult[None]:
    """Decide that a replica is lost because a person says so.

    Raises:
        UnknownTopicOrPartitionError: The partition is gone.
        InvalidRequestError: The broker has no replica of it that was created and is not lost.
    """
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"partition {key.partition} is gone: it was deleted")
    if broker_id not in partition.replicas or not partition.is_created(broker_id):
        holders = ", ".join(str(each) for each in partition.replicas if partition.is_created(each))
        raise InvalidRequestError(
            f"can't give up the replica of {image.name_of(key)} on broker {broker_id}: it has none"
            f" that is not lost already; name one of the brokers {holders}"
        )
    change = lost_change(image, partition, broker_id)
    return ControllerResult([change_record(image, key, partition, change, cause)], None)
