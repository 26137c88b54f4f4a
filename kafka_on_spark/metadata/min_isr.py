"""How many replicas must be in sync: what min.insync.replicas asks of a partition.

The number of replicas bounds it. Below the minimum acks=all is refused, and the high watermark
stands still (I9).
"""

from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration

MIN_ISR = "min.insync.replicas"


def min_isr_setting(image: MetadataImage, topic_id: TopicId) -> int:
    """Return the setting of a topic, whatever number of replicas its partitions have."""
    return image.settings(topic_id).integer(MIN_ISR)


def min_isr(image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration) -> int:
    """Return the effective minimum: the setting or the number of replicas, if that is less."""
    return min(min_isr_setting(image, topic_id), len(partition.replicas))


def is_under_min_isr(
    image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration
) -> bool:
    """Return whether too few replicas are in sync for acks=all."""
    return len(partition.isr) < min_isr(image, topic_id, partition)


def is_at_min_isr(
    image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration
) -> bool:
    """Return whether too few would be left for acks=all if one more member left the ISR."""
    return len(partition.isr) == min_isr(image, topic_id, partition)


def too_few_in_sync(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration
) -> str:
    """Return the sentence that refuses an append with acks=all to a partition."""
    return (
        f"partition {image.name_of(key)} has {len(partition.isr)} replicas in sync, and"
        f" acks=all needs {min_isr(image, key.topic_id, partition)}"
        f" ({MIN_ISR}): bring brokers back, or append with acks=1"
    )
