"""What a topic allows of a record: its size, partition, key and time.

A producer asks for each record, tasks for columns of them, an append for its segments: by the same
rules, in the same words.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    KafkaOnSparkError,
    MessageTooLargeError,
)
from kafka_on_spark.base.ids import EPOCH
from kafka_on_spark.log.retention import is_compacted
from kafka_on_spark.metadata.image import MetadataImage, TopicImage

AFTER: Final = "message.timestamp.after.max.ms"
BEFORE: Final = "message.timestamp.before.max.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """What a topic allows, by one image.

    Attributes:
        record_bytes_max: Source: max.message.bytes.
        before_max_ms: Source: message.timestamp.before.max.ms; None: the time of the append counts.
        after_max_ms: Source: message.timestamp.after.max.ms; None likewise.
        needs_key: The topic is compacted (KIP-135). Source: cleanup.policy.
    """

    name: str
    partition_count: int
    record_bytes_max: int
    before_max_ms: int | None
    after_max_ms: int | None
    needs_key: bool

    def key_refusal(self) -> InvalidRecordError | None:
        """Return why a record without a key is refused, or None."""
        if not self.needs_key:
            return None
        return InvalidRecordError(
            f"a record for {self.name} has no key, and its topic is compacted (cleanup.policy):"
            " give each record a key, or alter the setting"
        )

    def time_refusal(self, timestamp_us: int, now_ms: int) -> InvalidTimestampError | None:
        """Return why a record's own timestamp is refused at the time of its append, or None
        (KIP-937). Source: LogValidator.validateTimestamp."""
        if self.before_max_ms is None or self.after_max_ms is None:
            return None
        age_us = now_ms * 1000 - timestamp_us
        if -self.after_max_ms * 1000 <= age_us <= self.before_max_ms * 1000:
            return None
        side, setting, limit_ms = (
            ("before", BEFORE, self.before_max_ms)
            if age_us > 0
            else ("after", AFTER, self.after_max_ms)
        )
        return InvalidTimestampError(
            f"a record for {self.name} has the timestamp {_time(timestamp_us)}, more than"
            f" {limit_ms} ms {side} its append: give it another, or set {setting}"
        )


def topic_limits(image: MetadataImage, topic: TopicImage) -> TopicLimits:
    """Return what a topic allows."""
    settings = image.settings(topic.topic_id)
    is_own = settings.text("message.timestamp.type") != "LogAppendTime"
    return TopicLimits(
        name=topic.name,
        partition_count=len(topic.partitions),
        record_bytes_max=settings.integer("max.message.bytes"),
        before_max_ms=settings.integer(BEFORE) if is_own else None,
        after_max_ms=settings.integer(AFTER) if is_own else None,
        needs_key=is_compacted(settings),
    )


def size_refusal(size_bytes: int, record_bytes_max: int) -> MessageTooLargeError | None:
    """Return why a record of that size (key, value and headers) is refused, or None."""
    if size_bytes <= record_bytes_max:
        return None
    return MessageTooLargeError(
        f"a record has {size_bytes} bytes, more than max.message.bytes={record_bytes_max}: make it"
        " smaller, or raise the topic's setting"
    )


def partition_refusal(partition: int, partition_count: int) -> KafkaOnSparkError | None:
    """Return why a record can't go to the partition that it names, or None."""
    if 0 <= partition < partition_count:
        return None
    return InvalidRecordError(
        f"invalid partition given with record: {partition} is not in the range"
        f" [0, {partition_count}); leave `partition` null to have it chosen by key"
    )


def _time(timestamp_us: int) -> str:
    try:
        return (EPOCH + timedelta(microseconds=timestamp_us)).isoformat()
    except OverflowError:
        return f"{timestamp_us} µs since 1970"
