"""Inspections of the replicas of partitions without a leader, for the decision of `recovery`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionEpoch, PartitionKey
from kafka_on_spark.controller.recovery import leaderless
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.reports import ReplicaInspection


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionOrder:
    """Which replica to inspect, planned on an image.

    Attributes:
        address: The replica.
        partition_epoch: Of the partition in that image.
        high_watermark: Of the partition in that image.
    """

    address: ReplicaAddress
    partition_epoch: PartitionEpoch
    high_watermark: Offset


RunInspections = Callable[[Sequence[InspectionOrder]], list[ReplicaInspection | None]]


def inspect_replica(order: InspectionOrder, replicas: ReplicaStore) -> ReplicaInspection | None:
    """Return what a replica's log says; None if it can't be read."""
    try:
        state = replicas.open(order.address).load()
    except KafkaOnSparkError:
        return None
    return ReplicaInspection(
        key=order.address.key,
        broker_id=order.address.broker_id,
        partition_epoch=order.partition_epoch,
        high_watermark=order.high_watermark,
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        last_epoch=state.batches[-1].leader_epoch if state.batches else None,
        epoch_below_high_watermark=state.epoch_at(Offset(order.high_watermark - 1)),
        chain_digest=state.chain_digest,
        chain_at_high_watermark=state.chain_at(order.high_watermark),
        compacted_below=state.compaction.compacted_below,
        fence=state.leader_epoch,
    )


def plan_inspections(
    image: MetadataImage, keys: Iterable[PartitionKey] | None = None
) -> list[InspectionOrder]:
    """Return an order for each replica of partitions without a leader, on brokers that answer."""
    return [
        order
        for key in leaderless(image, keys)
        for order in inspections_of(image, key)
        if image.is_eligible(order.address.broker_id)
    ]


def inspections_of(image: MetadataImage, key: PartitionKey) -> list[InspectionOrder]:
    """Return an order for each replica of a partition that was created."""
    partition = image.topics[key.topic_id].partitions[key.partition]
    return [
        InspectionOrder(
            address=address_of(image, key, partition, broker_id),
            partition_epoch=partition.partition_epoch,
            high_watermark=partition.high_watermark,
        )
        for broker_id in partition.replicas
        if partition.is_created(broker_id)
    ]
