"""Topics as people ask for them."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_on_spark.config import SETTINGS
from kafka_on_spark.controller.high_watermark import is_under_min_isr
from kafka_on_spark.ids import BrokerId, LeaderEpoch, Offset, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """Where a partition's log begins, is committed to, and ends as last recorded."""

    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition, as `kafka-topics --describe` shows it."""

    partition: int
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offsets: PartitionOffsets
    is_under_replicated: bool
    is_under_min_isr: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic.

    Attributes:
        name: Its name.
        topic_id: Its id.
        partitions: In order.
        configs: What was set for it.
        notes: Which of its settings this version does not enforce.
    """

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]
    notes: tuple[str, ...]


def offsets_of(partition: PartitionRegistration) -> PartitionOffsets:
    """Return a partition's offsets as the metadata has them."""
    return PartitionOffsets(
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        log_end_offset=Offset(max(partition.high_watermark, partition.log_end_offset)),
    )


def describe(image: MetadataImage, name: str) -> TopicDescription:
    """Return the description of a topic.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
    topic = image.topic(name)
    return TopicDescription(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            PartitionDescription(
                partition=number,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                replicas=partition.replicas,
                isr=tuple(sorted(partition.isr)),
                offsets=offsets_of(partition),
                is_under_replicated=partition.is_under_replicated,
                is_under_min_isr=is_under_min_isr(image, topic.topic_id, partition),
            )
            for number, partition in sorted(topic.partitions.items())
        ),
        configs=dict(topic.configs),
        notes=tuple(
            f"{setting}: {SETTINGS[setting].note}"
            for setting in topic.configs
            if SETTINGS[setting].note is not None
        ),
    )
