"""What is wrong with a partition, in the terms of kafka-topics' filters.

Source: TopicCommand's isUnderReplicated, isUnderMinIsr, isAtMinIsr and hasUnavailable.
"""

from enum import Enum

from kafka_on_spark.base.ids import BrokerId, TopicId
from kafka_on_spark.metadata.high_watermark import is_at_min_isr, is_under_min_isr
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration


class PartitionState(Enum):
    """One thing that may be wrong; several may be at once."""

    UNDER_REPLICATED = "under-replicated"  # fewer in sync than assigned
    UNDER_MIN_ISR = "under-min-isr"  # acks=all can't be kept
    AT_MIN_ISR = "at-min-isr"  # acks=all can't be kept once one more is lost
    UNAVAILABLE = "unavailable"  # no leader
    STALLED_MOVE = "stalled-move"  # it moves to a broker that is fenced


def states_of(
    image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration
) -> frozenset[PartitionState]:
    """Return what is wrong with a partition; nothing if it is empty."""
    checks = {
        PartitionState.UNDER_REPLICATED: partition.is_under_replicated,
        PartitionState.UNDER_MIN_ISR: is_under_min_isr(image, topic_id, partition),
        PartitionState.AT_MIN_ISR: is_at_min_isr(image, topic_id, partition),
        PartitionState.UNAVAILABLE: not _is_online(image, partition.leader),
        PartitionState.STALLED_MOVE: bool(stalled_on(image, partition)),
    }
    return frozenset(state for state, holds in checks.items() if holds)


def stalled_on(image: MetadataImage, partition: PartitionRegistration) -> tuple[BrokerId, ...]:
    """Return the brokers that a move waits for and that are fenced: it goes on when they are back,
    or is cancelled."""
    if not partition.is_reassigning:
        return ()
    awaited = (each for each in partition.target_replicas if each not in partition.isr)
    return tuple(each for each in awaited if not _is_online(image, each))


def _is_online(image: MetadataImage, broker_id: BrokerId | None) -> bool:
    broker = None if broker_id is None else image.brokers.get(broker_id)
    return broker is not None and broker.is_online
