"""Plans to which offsets a group is reset, as `consumer-groups --reset-offsets` asks.

Pure: offsets for times are found by a function that is passed in. Source: ConsumerGroupCommand.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset, PartitionKey, TopicPartition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.query.moments import micros_of

FindOffset = Callable[[PartitionKey, int], Offset | None]
"""The first committed record of a partition that is not older than µs since 1970 UTC, or None."""

_DURATION: Final = re.compile(
    r"P(?=\d|T\d)(?:(\d{1,6})D)?"
    r"(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d+)?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class Earliest:
    """To the log start."""


@dataclass(frozen=True, slots=True)
class Latest:
    """To the high watermark."""


@dataclass(frozen=True, slots=True)
class Current:
    """To the group's own offset, moved into the range that the log still has."""


@dataclass(frozen=True, slots=True)
class To:
    """To an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Shift:
    """By a number of records from the group's offset; backwards if negative."""

    by: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """To the first record that is not older than a time, µs since 1970 UTC."""

    timestamp_us: int


Target = Earliest | Latest | Current | To | Shift | ToTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The reset of a group's offset in a partition.

    Attributes:
        name: The partition.
        before: The group's offset before, or None.
        offset: The group's offset after.
        asked: The offset that was asked for, if it is outside of the log; else None.
    """

    name: TopicPartition
    before: int | None
    offset: int
    asked: int | None


def plan_resets(
    image: MetadataImage,
    group: str,
    keys: Sequence[PartitionKey],
    target: Target,
    find_offset: FindOffset,
) -> list[Reset]:
    """Return the resets of a group's offsets; each stays within the partition's committed range.

    Raises:
        InvalidRequestError: A shift where the group has no offset.
        And what `find_offset` raises.
    """
    return [_reset(image, group, key, target, find_offset) for key in keys]


def _reset(
    image: MetadataImage, group: str, key: PartitionKey, target: Target, find_offset: FindOffset
) -> Reset:
    partition = image.partition(key)
    assert partition is not None, "the partition is in this image"
    known = image.groups.get((group, key))
    before = None if known is None else known.offset
    if isinstance(target, Shift) and before is None:
        raise InvalidRequestError(
            f"group {group!r} has no offset of {image.name_of(key)} to shift: name partitions of"
            " which it has one, or reset it to an offset"
        )
    asked = _asked(partition, key, before, target, find_offset)
    offset = min(max(asked, partition.log_start_offset), partition.high_watermark)
    return Reset(
        name=image.name_of(key),
        before=before,
        offset=offset,
        asked=None if asked == offset else asked,
    )


def _asked(
    partition: PartitionRegistration,
    key: PartitionKey,
    before: int | None,
    target: Target,
    find_offset: FindOffset,
) -> int:
    """Return the offset that is asked for; the high watermark if no record matches, as in Kafka."""
    match target:
        case Earliest():
            return partition.log_start_offset
        case To(offset):
            return offset
        case Shift(by):
            assert before is not None, "checked"
            return before + by
        case ToTime(timestamp_us):
            found = find_offset(key, timestamp_us)
            return partition.high_watermark if found is None else found
        case Current() if before is not None:
            return before
    return partition.high_watermark


def parse_datetime(text: str) -> int:
    """Return a moment in µs since 1970 UTC; without a time zone it is UTC, as in Kafka.

    Raises:
        InvalidRequestError: It is not one.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(
            f"--to-datetime can't be {text!r}: give a time such as 2026-01-31T12:00:00.000"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return micros_of(moment)


def parse_duration(text: str) -> int:
    """Return an ISO 8601 duration in µs. Source: java.time.Duration, without its signs.

    Raises:
        InvalidRequestError: It is not one.
    """
    match = _DURATION.fullmatch(text.upper())
    if match is None:
        raise InvalidRequestError(
            f"--by-duration can't be {text!r}: give days, hours, minutes and seconds as PnDTnHnMnS,"
            " such as P1DT6H or PT30M"
        )
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return duration // timedelta(microseconds=1)
