"""What is wrong with a partition, in the terms of kafka-topics' filters.

Source: TopicCommand's isUnderReplicated, isUnderMinIsr, isAtMinIsr and hasUnavailable.
"""

from enum import Enum

from kafka_on_spark.controller.partitions.min_isr import is_at_min_isr, is_under_min_isr
from kafka_on_spark.ids import TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration


class PartitionState(Enum):
    """One thing that may be wrong; several may be at once."""

    UNDER_REPLICATED = "under-replicated"  # fewer in sync than assigned
    UNDER_MIN_ISR = "under-min-isr"  # acks=all can't be kept
    AT_MIN_ISR = "at-min-isr"  # acks=all can't be kept once one more is lost
    UNAVAILABLE = "unavailable"  # no leader


def states_of(
    image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration
) -> frozenset[PartitionState]:
    """Return what is wrong with a partition; nothing if it is empty."""
    checks = {
        PartitionState.UNDER_REPLICATED: partition.is_under_replicated,
        PartitionState.UNDER_MIN_ISR: is_under_min_isr(image, topic_id, partition),
        PartitionState.AT_MIN_ISR: is_at_min_isr(image, topic_id, partition),
        PartitionState.UNAVAILABLE: is_unavailable(image, partition),
    }
    return frozenset(state for state, holds in checks.items() if holds)


def is_unavailable(image: MetadataImage, partition: PartitionRegistration) -> bool:
    """Return whether there is no leader, or its broker counts as dead."""
    if partition.leader is None:
        return True
    broker = image.brokers.get(partition.leader)
    return broker is None or not broker.is_online
