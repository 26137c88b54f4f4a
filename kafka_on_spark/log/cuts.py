"""What lies between two cuts of a topic, and what compaction has left of a cut.

A cut is an image: the high watermarks of all partitions at one metadata offset. Pure.
"""

from kafka_on_spark.base.errors import (
    InconsistentTopicIdError,
    InvalidRequestError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, TopicPartition
from kafka_on_spark.log.progress import CompactionProgress
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration

Ranges = dict[int, tuple[Offset, Offset]]
"""Offsets by partition: from the first, up to and without the second."""


def check_cut(
    name: TopicPartition, high_watermark: Offset, now: PartitionRegistration | None
) -> None:
    """Check that a partition has what it had when its high watermark was `high_watermark`.

    Raises:
        OffsetOutOfRangeError: It is compacted above that: values of then are gone.
    """
    below = Offset(0) if now is None else now.compaction.compacted_below
    _check_values(name, high_watermark, below)


def check_left(
    name: TopicPartition,
    left: CompactionProgress,
    *,
    compacted_max: Offset | None,
    tombstones_max: Offset | None,
) -> None:
    """Check that a replica has what is read of a cut: it may have been compacted further since the
    read was planned. None: nothing is asked of it.

    Raises:
        OffsetOutOfRangeError: It is compacted above `compacted_max`, or without tombstones above
            `tombstones_max`.
    """
    if compacted_max is not None:
        _check_values(name, compacted_max, left.compacted_below)
    if tombstones_max is not None:
        _check_deletions(name, tombstones_max, left.tombstones_below)


def _check_values(name: TopicPartition, high_watermark: Offset, below: Offset) -> None:
    if high_watermark < below:
        raise OffsetOutOfRangeError(
            f"{name} can't be read as it was at high watermark {high_watermark}: it is compacted"
            f" below {below}, and a value that was the last of its key then may be gone; name a"
            " later moment"
        )


def ranges_between(
    before: MetadataImage, after: MetadataImage, now: MetadataImage, topic: str
) -> Ranges:
    """Return what was committed to each partition of a topic between two cuts.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic, or one of its partitions was removed.
        InconsistentTopicIdError: Another topic had the name at the first cut.
        InvalidRequestError: The cuts are in the wrong order.
        LogTruncatedError: Records were lost since the first one, by an unclean election, or as a
            partition was removed and added again.
        OffsetOutOfRangeError: Records between them are deleted, or tombstones among them are gone,
            or values of the later one.
    """
    if before.offset > after.offset:
        raise InvalidRequestError(
            f"there are no changes from metadata offset {before.offset} back to {after.offset}:"
            " name the earlier one first"
        )
    topic_id = after.topic(topic).topic_id
    if topic_id not in now.topics:
        raise UnknownTopicOrPartitionError(f"the topic {topic!r} of that moment was deleted")
    if before.topic_ids.get(topic) not in (None, topic_id):
        raise InconsistentTopicIdError(
            f"the topic {topic!r} was deleted and created again between the two moments: read the"
            " whole table again"
        )
    older = before.topics.get(topic_id)
    partitions = after.topics[topic_id].partitions
    removed = sorted(older.partitions.keys() - partitions.keys()) if older is not None else []
    if removed:
        raise UnknownTopicOrPartitionError(
            f"{TopicPartition(topic, removed[0])} was removed between the two moments: read the"
            " whole table again"
        )
    ranges: Ranges = {}
    for number, partition in sorted(partitions.items()):
        name, end = TopicPartition(topic, number), partition.high_watermark
        newest = now.topics[topic_id].partitions.get(number)
        if newest is None:
            raise UnknownTopicOrPartitionError(f"{name} of that moment was removed")
        was = None if older is None else older.partitions.get(number)
        start = Offset(0) if was is None else was.high_watermark
        check_cut(name, end, newest)
        # What became of a partition between its creation and the later cut makes no difference.
        _check_kept(name, start, end, was or partition, newest)
        ranges[number] = (start, end)
    return ranges


def _check_kept(
    name: TopicPartition,
    start: Offset,
    end: Offset,
    was: PartitionRegistration,
    now: PartitionRegistration,
) -> None:
    if was.unclean_generation != now.unclean_generation:
        raise LogTruncatedError(
            f"records of {name} were lost since, by an unclean election or as it was removed and"
            " added again: read the whole table again"
        )
    if start < min(now.log_start_offset, end):
        raise OffsetOutOfRangeError(
            f"records of {name} from {start} on are deleted, its log starts at"
            f" {now.log_start_offset}: read the whole table again"
        )
    if start < end:
        _check_deletions(name, start, now.compaction.tombstones_below)


def _check_deletions(name: TopicPartition, start: Offset, below: Offset) -> None:
    if start < below:
        raise OffsetOutOfRangeError(
            f"what was deleted from {name} since offset {start} can't be said, tombstones below"
            f" {below} are gone (delete.retention.ms): read the whole table again"
        )
