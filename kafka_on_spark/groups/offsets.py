"""A group's offsets, one partition at a time: whether one stands, the record that saves one, and
which partitions a group has to begin at their beginning."""

from collections.abc import Iterable

from kafka_on_spark.base.ids import Offset, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset, PartitionRegistration
from kafka_on_spark.metadata.records import OffsetCommitRecord


def is_saved(known: GroupOffset | None, partition: PartitionRegistration, offset: int) -> bool:
    """Return whether a group stands at `offset` of a partition as it is now."""
    return (
        known is not None
        and known.offset == offset
        and known.unclean_generation == partition.unclean_generation
    )


def saved_offset(
    group: str, key: PartitionKey, partition: PartitionRegistration, offset: int, cause: str
) -> OffsetCommitRecord:
    """Return the record that brings a group to `offset` of a partition."""
    is_at_end = offset == partition.high_watermark
    return OffsetCommitRecord(
        group=group,
        topic_id=key.topic_id,
        partition=key.partition,
        offset=Offset(offset),
        leader_epoch=partition.high_watermark_epoch if is_at_end else None,
        unclean_generation=partition.unclean_generation or None,
        cause=cause,
    )


def beginning(
    group: str, topic: str, key: PartitionKey, partition: PartitionRegistration
) -> OffsetCommitRecord:
    """Return the record by which a group stands at the beginning of a partition of a topic that was
    created while the group has read: it skips nothing, whenever its members take the partition."""
    cause = f"topic {topic} came: group {group!r} begins at its beginning"
    return saved_offset(group, key, partition, partition.log_start_offset, cause)


def added_since(
    image: MetadataImage, keys: Iterable[PartitionKey], group: str | None
) -> set[PartitionKey]:
    """Return the partitions that were added to their topics after a group had committed lower ones:
    it has an offset of none that is as high. A group that has no offset of a topic is new to it."""
    highest: dict[TopicId, int] = {}
    for name, saved in image.groups:
        if name == group:
            highest[saved.topic_id] = max(saved.partition, highest.get(saved.topic_id, 0))
    return {key for key in keys if key.partition > highest.get(key.topic_id, key.partition)}
