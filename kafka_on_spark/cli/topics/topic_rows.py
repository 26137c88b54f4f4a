"""The rows of `topics --describe`: topics and their partitions, as the metadata has them."""

from collections.abc import Iterator
from typing import Any, Final

from kafka_on_spark.cli.call.output import text_of
from kafka_on_spark.controller.partitions.partition_states import (
    PartitionState,
    stalled_on,
    states_of,
)
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration

COLUMNS: Final = {
    "topic": "topic",
    "partition": "partition",
    "leader": "leader",
    "replicas": "replicas",
    "isr": "isr",
    "elr": "elr",
    "adding_replicas": "adding",
    "removing_replicas": "removing",
    "states": "state",
}


def partition_rows(
    image: MetadataImage, topic: TopicImage, wanted: frozenset[PartitionState] = frozenset()
) -> Iterator[dict[str, Any]]:
    """Yield a topic's partitions as rows; with `wanted`, only those in one of these states."""
    for number in sorted(topic.partitions):
        partition = topic.partitions[number]
        states = states_of(image, topic.topic_id, partition)
        if not wanted or states & wanted:
            row = _partition_row(topic.name, number, partition, states)
            yield row | {"stalled_on": list(stalled_on(image, partition))}


def _partition_row(
    name: str, number: int, partition: PartitionRegistration, states: frozenset[PartitionState]
) -> dict[str, Any]:
    return {
        "topic": name,
        "partition": number,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": sorted(partition.isr),
        "elr": sorted(partition.elr),
        "adding_replicas": list(partition.adding_replicas),
        "removing_replicas": list(partition.removing_replicas),
        "log_start_offset": partition.log_start_offset,
        "high_watermark": partition.high_watermark,
        "compacted_below": partition.compaction.compacted_below,
        "cleaned_below": partition.compaction.cleaned_below,
        "tombstones_below": partition.compaction.tombstones_below,
        "states": [state.value for state in PartitionState if state in states],
    }


def topic_as_dict(
    image: MetadataImage, topic: TopicImage, wanted: frozenset[PartitionState]
) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "partition_count": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "configs": dict(topic.configs),
        "partitions": list(partition_rows(image, topic, wanted)),
    }


def _replication_factor(topic: TopicImage) -> int:
    first = topic.partitions[min(topic.partitions)]
    return len(first.replicas) - len(first.adding_replicas)


def summary(image: MetadataImage, topic: TopicImage) -> str:
    """Return the line that kafka-topics shows for a topic."""
    configs = ",".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
    return (
        f"Topic: {topic.name}  TopicId: {topic.topic_id}"
        f"  PartitionCount: {len(topic.partitions)}"
        f"  ReplicationFactor: {_replication_factor(topic)}  Configs: {text_of(configs)}"
    )
