"""The fetches of a partition, by the metadata: planned where there is work, or to inspect it; and
why one was refused, when its answer has come.

A fetch runs under the image that it was planned on, and may have been refused because the metadata
has moved on since.
"""

from collections.abc import Collection, Sequence

from kafka_on_spark.base.errors import NO_ERROR, ProtocolError, UnknownTopicIdError
from kafka_on_spark.base.ids import BrokerId, PartitionKey, TopicId
from kafka_on_spark.controller.expiry import registered_producers
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.log.fetch import FetchOrder, FetchResult
from kafka_on_spark.log.leadership import check_request
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import ReplicaReport


def has_work(partition: PartitionRegistration) -> bool:
    """Return whether replication has something to do for a partition."""
    return (
        partition.high_watermark < partition.log_end_offset
        or partition.is_under_replicated
        or partition.is_reassigning
    )


def keys_with_work(
    image: MetadataImage, topic_ids: Collection[TopicId] | None
) -> list[PartitionKey]:
    """Return the partitions with work of some topics, or of all."""
    return [
        key
        for key, partition in image.partitions_needing_work()
        if (topic_ids is None or key.topic_id in topic_ids) and has_work(partition)
    ]


def plan_fetches(
    image: MetadataImage, key: PartitionKey, *, is_inspection: bool = False
) -> list[FetchOrder]:
    """Return the fetches that a partition needs: one a follower, or one of the leader only.

    `is_inspection`: all replicas are inspected, uncached, whether or not there is work. A partition
    without a leader, or whose leader was never created, has nothing to fetch from.
    """
    partition = image.partition(key)
    if partition is None or partition.leader is None or not partition.is_created(partition.leader):
        return []
    leader = address_of(image, key, partition, partition.leader)
    is_behind = is_inspection or partition.high_watermark < partition.log_end_offset
    followers: list[BrokerId | None] = [
        broker_id
        for broker_id in partition.replicas
        if broker_id != partition.leader
        and partition.is_created(broker_id)
        and image.brokers[broker_id].is_online
        and (is_behind or broker_id not in partition.isr)
    ]
    if not followers and is_behind:
        followers = [None]
    return [
        FetchOrder(
            key=key,
            partition=partition,
            leader=leader,
            follower=None if each is None else address_of(image, key, partition, each),
            fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
            is_uncached=is_inspection,
            registered=registered_producers(image),
        )
        for each in followers
    ]


def lacks_leader_table(partition: PartitionRegistration | None) -> bool:
    """Return whether replicas were created that can't be inspected before their leader's is."""
    if partition is None or partition.leader is None or partition.is_created(partition.leader):
        return False
    return any(partition.is_created(broker_id) for broker_id in partition.replicas)


def covers_all(image: MetadataImage, key: PartitionKey, plan: Sequence[FetchOrder]) -> bool:
    """Return whether fetches read the tables of all replicas that an inspection would read."""
    inspection = plan_fetches(image, key, is_inspection=True)
    return bool(plan) and set(map(fetcher_of, inspection)) == set(map(fetcher_of, plan))


def has_tables(image: MetadataImage, key: PartitionKey) -> bool:
    """Return whether any replica of a partition was created, so that there is one to inspect."""
    partition = image.partition(key)
    return partition is not None and any(partition.directories)


def fetcher_of(order: FetchOrder) -> tuple[PartitionKey, BrokerId | None]:
    """Return the partition and the follower of a fetch."""
    return order.key, None if order.follower is None else order.follower.broker_id


def check_order(image: MetadataImage, order: FetchOrder) -> None:
    """Check a fetch that was planned earlier against `image`, as its leader's broker would.

    Raises:
        UnknownTopicIdError: The topic was deleted.
        UnknownTopicOrPartitionError: The partition is gone, or the leader's replica of it.
        FencedLeaderEpochError: A later leadership has begun.
        UnknownLeaderEpochError: The image is behind the plan, or knows no such follower.
        NotLeaderOrFollowerError: The leader has lost its leadership, and there is no other.
    """
    if order.key.topic_id not in image.topics:
        raise UnknownTopicIdError("the topic was deleted", topic_id=order.key.topic_id)
    check_request(
        image.partition(order.key),
        order.leader.broker_id,
        leader_epoch=order.partition.leader_epoch,
        only_leader=True,
        fetched_by=None if order.follower is None else order.follower.broker_id,
    )


def refusals(result: FetchResult) -> list[ReplicaReport]:
    """Return the replicas that refused, the leader's first."""
    reports = (result.report.leader, *result.report.followers)
    return [each for each in reports if each.error_code != NO_ERROR]


def refusal_of(
    image: MetadataImage, order: FetchOrder, refused: ReplicaReport
) -> tuple[int, str | None]:
    """Return why a replica refused, as code and words.

    A bad replica is bad under any leadership. Otherwise, if the metadata says that the fetch asked
    the wrong replica, that is the reason, whatever the fetch met there.
    """
    if not refused.is_bad:
        try:
            check_order(image, order)
        except ProtocolError as error:
            return error.code, str(error)
    return refused.error_code, refused.error


def refusal_code(image: MetadataImage, order: FetchOrder, result: FetchResult) -> int:
    """Return the code of a fetch's first refusal, or NO_ERROR."""
    refused = refusals(result)
    return refusal_of(image, order, refused[0])[0] if refused else NO_ERROR
