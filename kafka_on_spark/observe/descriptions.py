"""Describes topics and brokers, as kafka-topics --describe does."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_on_spark.base.ids import LOST, BrokerId, LeaderEpoch, Offset, TopicId
from kafka_on_spark.metadata.high_watermark import is_under_min_isr
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import Compaction, PartitionRegistration
from kafka_on_spark.observe.partition_states import stalled_on


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """A partition's log start, its high watermark, and its log end as last recorded."""

    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition, as `kafka-topics --describe` shows it.

    `stalled_on`: the fenced brokers that a move of it waits for; none if nothing waits.
    """

    partition: int
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offsets: PartitionOffsets
    compaction: Compaction
    is_under_replicated: bool
    is_under_min_isr: bool
    stalled_on: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """One topic.

    Attributes:
        name: Its name.
        topic_id: Its id.
        partitions: In order.
        configs: The settings that it has of its own.
    """

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionDescription, ...]
    configs: Mapping[str, str]


def offsets_of(partition: PartitionRegistration) -> PartitionOffsets:
    """Return a partition's offsets as the metadata has them."""
    return PartitionOffsets(
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        log_end_offset=partition.known_log_end,
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
                compaction=partition.compaction,
                is_under_replicated=partition.is_under_replicated,
                is_under_min_isr=is_under_min_isr(image, topic.topic_id, partition),
                stalled_on=stalled_on(image, partition),
            )
            for number, partition in sorted(topic.partitions.items())
        ),
        configs=dict(topic.configs),
    )


def describe_brokers(image: MetadataImage) -> list[dict[str, Any]]:
    """Return a row for each broker, by id: what it leads, is the preferred leader of, has a replica
    of (created or not), and is in sync in. One pass over the partitions."""
    leaders: Counter[BrokerId] = Counter()
    preferred: Counter[BrokerId] = Counter()
    replicas: Counter[BrokerId] = Counter()
    in_sync: Counter[BrokerId] = Counter()
    lost: Counter[BrokerId] = Counter()
    for _, partition in image.partitions():
        if partition.leader is not None:
            leaders[partition.leader] += 1
        preferred[partition.replicas[0]] += 1
        replicas.update(partition.replicas)
        in_sync.update(partition.isr)
        lost.update(each for each in partition.replicas if partition.directory_of(each) == LOST)
    return [
        {
            "broker": broker_id,
            "state": broker.state.value,
            "rack": broker.rack,
            "root": broker.root,
            "broker_epoch": broker.broker_epoch,
            "directory_id": broker.directory_id,
            "leaders": leaders[broker_id],
            "preferred": preferred[broker_id],
            "replicas": replicas[broker_id],
            "in_sync": in_sync[broker_id],
            "lost": lost[broker_id],
            "writes": broker.refused and f"refused: {broker.refused}",
        }
        for broker_id, broker in sorted(image.brokers.items())
    ]
