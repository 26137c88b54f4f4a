"""Plans to which offsets a group is reset, as `consumer-groups --reset-offsets` asks.

Pure: offsets for times are found by a function that is passed in. Source: ConsumerGroupCommand.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicPartition
from kafka_on_spark.base.moments import micros_of
from kafka_on_spark.metadata.image import MetadataImage

FindOffset = Callable[[PartitionKey, int], Offset | None]
"""The first committed record of a partition that is not older than µs since 1970 UTC, or None."""

_DURATION: Final = re.compile(
    r"P(?=\d|T\d)(?:(\d{1,6})D)?"
    r"(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d+)?)S)?)?"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a group is reset to: "earliest"; "latest"; "current", its own offset, moved into the
    range that the log still has; "offset", by its number; "shift", by a number of records from its
    own offset, backwards if negative; "time", the first record that is not older than µs since 1970
    UTC."""

    kind: str
    value: int = 0


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


def plan_reset(
    image: MetadataImage, group: str, key: PartitionKey, target: Target, find_offset: FindOffset
) -> Reset:
    """Return the reset of a group's offset, which stays within the partition's committed range.

    Raises:
        InvalidRequestError: A shift where the group has no offset.
        And what `find_offset` raises.
    """
    partition = image.partition(key)
    assert partition is not None, "the partition is in this image"
    known = image.groups.get((group, key))
    before = None if known is None else known.offset
    if target.kind == "shift" and before is None:
        raise InvalidRequestError(
            f"group {group!r} has no offset of {image.name_of(key)} to shift: name partitions of"
            " which it has one, or reset it to an offset"
        )
    start, end = partition.log_start_offset, partition.high_watermark
    asked: int | None
    match target.kind:
        case "earliest":
            asked = start
        case "offset":
            asked = target.value
        case "shift":
            asked = (before or 0) + target.value
        case "time":
            asked = find_offset(key, target.value)
        case "current":
            asked = before
        case _:
            asked = end
    if asked is None:
        asked = end  # as in Kafka, if no record matches
    offset = min(max(asked, start), end)
    return Reset(
        name=image.name_of(key),
        before=before,
        offset=offset,
        asked=None if asked == offset else asked,
    )


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
