"""Which fetches a partition needs, by the metadata: where there is work, and for a look at all."""

from collections.abc import Sequence

from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.replication import FetchOrder


def has_work(partition: PartitionRegistration) -> bool:
    """Return whether replication has something to do for a partition."""
    return (
        partition.high_watermark < partition.log_end_offset
        or partition.is_under_replicated
        or partition.is_reassigning
    )


def plan_fetches(
    image: MetadataImage, key: PartitionKey, *, is_look: bool = False
) -> list[FetchOrder]:
    """Return the fetches that a partition needs: one a follower; at least a look at the leader.

    `is_look`: whatever it needs, all its replicas are looked at, opened anew. A partition without
    a leader, or whose leader was never made, has nothing to fetch from.
    """
    partition = image.partition(key)
    if partition is None or partition.leader is None or not partition.is_made(partition.leader):
        return []
    leader = address_of(image, key, partition, partition.leader)
    is_behind = is_look or partition.high_watermark < partition.log_end_offset
    followers: list[BrokerId | None] = [
        broker_id
        for broker_id in partition.replicas
        if broker_id != partition.leader
        and partition.is_made(broker_id)
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
            is_anew=is_look,
        )
        for each in followers
    ]


def lacks_leader_table(partition: PartitionRegistration | None) -> bool:
    """Return whether followers were made, which can't be looked at before their leader is."""
    if partition is None or partition.leader is None or partition.is_made(partition.leader):
        return False
    return any(partition.is_made(broker_id) for broker_id in partition.replicas)


def covers_all(image: MetadataImage, key: PartitionKey, plan: Sequence[FetchOrder]) -> bool:
    """Return whether fetches read the tables of all replicas that a look would read."""
    look = plan_fetches(image, key, is_look=True)
    return bool(plan) and {fetcher_of(each) for each in look} == {fetcher_of(each) for each in plan}


def has_tables(image: MetadataImage, key: PartitionKey) -> bool:
    """Return whether there is anything to look at: of no partition that was never made."""
    partition = image.partition(key)
    return partition is not None and any(partition.directories)


def fetcher_of(order: FetchOrder) -> tuple[PartitionKey, BrokerId | None]:
    """Return for which partition and follower a fetch is."""
    return order.key, None if order.follower is None else order.follower.broker_id
