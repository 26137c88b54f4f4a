"""Images in which one partition is registered otherwise."""

from dataclasses import replace

from kafka_on_spark.metadata.image import MetadataImage
from tests.builders import partition_map


def changed(image: MetadataImage, key, **fields) -> MetadataImage:
    """Return `image` with other fields of a partition's registration."""
    topic = image.topics[key.topic_id]
    partitions = {**topic.partitions, key.partition: replace(image.partition(key), **fields)}
    topics = {**image.topics, key.topic_id: replace(topic, partitions=partition_map(partitions))}
    return replace(image, topics=topics)
