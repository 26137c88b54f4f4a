"""A group's offsets, one partition at a time: whether one stands or is saved again, the record that
saves one, and which partitions a group has to begin at their beginning."""

from collections.abc import Iterable
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset, PartitionRegistration
from kafka_on_spark.metadata.records import OffsetCommitRecord

MINUTE_MS: Final = 60_000
"""The unit of offsets.retention.minutes."""


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


def is_renewal_due(image: MetadataImage, said_at_ms: int, now_ms: int, after_ms: int) -> bool:
    """Return whether what a client said is older than `after_ms`, by the clock of its process or by
    the newest commit: the log may have gone on since the process looked at its clock. What was said
    by a clock that was far ahead is to be said again, too."""
    return max(image.time_ms, now_ms) - said_at_ms >= after_ms or said_at_ms - now_ms >= after_ms


def offsets_retention_ms(settings: Settings) -> int:
    """Return how long a group's offset stays that nobody saves again."""
    return settings.integer("offsets.retention.minutes") * MINUTE_MS


def needs_saving_again(image: MetadataImage, known: GroupOffset | None, now_ms: int) -> bool:
    """Return whether half of the time is over after which a saved offset expires."""
    half_ms = offsets_retention_ms(image.settings()) // 2
    return known is not None and is_renewal_due(image, known.saved_at_ms, now_ms, half_ms)
