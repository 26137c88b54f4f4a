"""Checks how far records' own timestamps are from the time of their append (KIP-937), and says
which of them retention will delete.

Source: LogValidator.validateTimestamp. Not for topics whose timestamps are the append's time.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import InvalidTimestampError
from kafka_on_spark.base.moments import EPOCH
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.retention import limits_of

AFTER: Final = "message.timestamp.after.max.ms"
BEFORE: Final = "message.timestamp.before.max.ms"


def check_timestamps(
    topic: str, settings: Settings, segments: Mapping[int, Iterable[Segment]], now_ms: int
) -> None:
    """Check segments that were staged, by partition; `now_ms` is the time of their append.

    Raises:
        InvalidTimestampError: A record is too new or too old.
    """
    newest_us = (now_ms + settings.integer(AFTER)) * 1000
    oldest_us = (now_ms - settings.integer(BEFORE)) * 1000
    for number, each in sorted(segments.items()):
        for segment in each:
            if segment.timestamp_max_us > newest_us:
                raise _refusal(topic, number, segment.timestamp_max_us, "after", AFTER, settings)
            if segment.timestamp_min_us < oldest_us:
                raise _refusal(topic, number, segment.timestamp_min_us, "before", BEFORE, settings)


def retention_notice(
    topic: str, settings: Settings, batches: Iterable[Sequence[Segment]], now_ms: int
) -> str | None:
    """Return what retention will delete of an append's batches at once, by age; None: nothing.

    Retention takes whole batches, by the newest record in each.
    """
    limits = limits_of(settings)
    if limits is None or limits.retention_ms is None:
        return None
    oldest_us = (now_ms - limits.retention_ms) * 1000
    count = sum(
        sum(each.record_count for each in segments)
        for segments in batches
        if max(each.timestamp_max_us for each in segments) < oldest_us
    )
    if not count:
        return None
    return (
        f"{count} of the records of an append to {topic} are older than retention.ms"
        f" ({limits.retention_ms} ms), and retention deletes them with its next pass: to keep them,"
        " set the topic's retention.ms to -1"
    )


def _refusal(
    topic: str, number: int, timestamp_us: int, side: str, setting: str, settings: Settings
) -> InvalidTimestampError:
    return InvalidTimestampError(
        f"a record for {topic}-{number} has the timestamp {_time(timestamp_us)}, more than"
        f" {settings.integer(setting)} ms {side} the append, and nothing was appended: give it"
        f" another, or set {setting}"
    )


def _time(timestamp_us: int) -> str:
    try:
        return (EPOCH + timedelta(microseconds=timestamp_us)).isoformat()
    except OverflowError:
        return f"{timestamp_us} µs since 1970"
