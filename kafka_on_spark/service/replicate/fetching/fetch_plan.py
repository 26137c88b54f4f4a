"""The fetches of a partition, planned by the metadata: where there is work, or to inspect it."""

from collections.abc import Collection, Sequence

from kafka_on_spark.controller.commands.expiry import registered_producers
from kafka_on_spark.ids import BrokerId, PartitionKey, TopicId
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder


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
