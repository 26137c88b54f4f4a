"""Partitions as callers name them, a topic and a number: checked here for every call. Pure."""

from collections.abc import Iterable
from typing import Any

from kafka_on_spark.base.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import PartitionKey, TopicPartition, check_whole_number, listed
from kafka_on_spark.metadata.image import MetadataImage


def pair_of(name: object) -> TopicPartition:
    """Return the topic and the number by which a caller names a partition.

    Raises:
        InvalidRequestError: It is not a pair of a text and a whole number.
    """
    match name:
        case (str(topic), number) if not isinstance(number, bool) and hasattr(number, "__index__"):
            return TopicPartition(topic, number.__index__())
    raise InvalidRequestError(
        f"{name!r} names no partition: give topic and number, as in ('orders', 0)"
    )


def key_of(image: MetadataImage, name: object) -> PartitionKey:
    """Return the key of a partition that a caller has named by topic and number.

    Raises:
        InvalidRequestError: It is not a pair of a text and a whole number.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    return partition_key(image, *pair_of(name))


def keys_of(image: MetadataImage, names: object) -> list[PartitionKey]:
    """Return the keys of (topic, partition) pairs; a single pair need not be in a list.

    Raises:
        InvalidRequestError: It is neither a pair nor a list of pairs.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    if _is_pair(names):
        return [key_of(image, names)]
    allowed = "pairs of a topic and a partition, as in ('orders', 0)"
    return [key_of(image, name) for name in listed(names, "partitions", allowed)]


def names_of(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[TopicPartition]:
    """Return the names of those of some partitions that the image has, in order."""
    return sorted(image.name_of(key) for key in keys if image.partition(key) is not None)


def partition_key(image: MetadataImage, topic: str, partition: int) -> PartitionKey:
    """Return the key of a partition whose topic and number were given apart.

    Raises:
        InvalidRequestError: The partition is not a number.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    topic_image = image.topic(topic)
    check_whole_number(partition, "a partition")
    if partition not in topic_image.partitions:
        raise UnknownTopicOrPartitionError(
            f"topic {topic!r} has no partition {partition}: it has 0 to"
            f" {len(topic_image.partitions) - 1}"
        )
    return PartitionKey(topic_image.topic_id, partition)


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str)
