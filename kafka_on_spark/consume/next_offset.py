"""The next batch of a stream: where it starts, where it ends, and whether anything is new.

Pure; the time is passed in. The end is one consistent cut: the high watermarks of all partitions in
one image, or less by `maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay`. It moves
only when a partition of the query moves, or when a loss must be reported to the query. Source:
KafkaMicroBatchStream.rateLimit and delayBatch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.consume.data_loss import (
    checked_position,
    first_offset,
    has_new_generations,
    is_another_topic,
    partitions_deleted,
)
from kafka_on_spark.consume.standing import FindCuts
from kafka_on_spark.consume.stream_offsets import StreamOffset
from kafka_on_spark.consume.subscription import Partitions, Subscription, partitions_of
from kafka_on_spark.metadata.image import MetadataImage

MAX_DELAY_DEFAULT: Final = "15m"
_UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}

Ends = Mapping[str, Mapping[int, int]]
"""Offsets by topic name and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """The limits of a micro-batch.

    Attributes:
        max_offsets: Records that a batch has at most, or None.
        min_offsets: Records that a batch waits for, or None.
        max_delay_ms: How long a batch waits for them at most.
    """

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000

    def __post_init__(self) -> None:
        if self.min_offsets is None or self.max_offsets is None:
            return
        if self.min_offsets > self.max_offsets:
            raise InvalidRequestError(
                f"The value of minOffsetPerTrigger({self.min_offsets}) is higher than the"
                f" maxOffsetsPerTrigger({self.max_offsets})."
            )


def parse_delay_ms(text: str) -> int:
    """Return a time such as "15m" in ms; without a unit it is ms.

    Source: JavaUtils.timeStringAs.

    Raises:
        InvalidRequestError: It is not a time.
    """
    given = text.strip().lower()
    digits = given.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = given[len(digits) :] or "ms"
    if not digits.isascii() or not digits.isdigit() or unit not in _UNITS_MS:
        raise InvalidRequestError(
            f"option 'maxTriggerDelay' can't be {text!r}: Time must be specified as seconds (s),"
            " milliseconds (ms), microseconds (us), minutes (m or min), hour (h), or day (d)."
            " E.g. 50s, 100ms, or 250us."
        )
    return int(int(digits) * _UNITS_MS[unit])


def sizes(starts: Ends, ends: Ends) -> dict[tuple[str, int], int]:
    """Return how many records lie between, by partition; only partitions with records."""
    return {
        (name, number): size
        for name, partitions in ends.items()
        for number, end in partitions.items()
        if (size := end - starts[name][number]) > 0
    }


def is_delayed(
    limits: TriggerLimits, new_records: int, *, now_ms: int, last_trigger_ms: int | None
) -> bool:
    """Return whether a batch waits for more records; a run's first batch never does."""
    if limits.min_offsets is None or last_trigger_ms is None:
        return False
    is_over = now_ms - last_trigger_ms >= limits.max_delay_ms
    return not is_over and new_records < limits.min_offsets


def limited(starts: Ends, ends: Ends, max_offsets: int | None) -> dict[str, dict[int, int]]:
    """Return `ends`, cut so that about `max_offsets` records lie between.

    Each partition gets its share, and one record at least, so that small partitions never starve;
    the sum may exceed the limit by one record a partition.
    """
    found = sizes(starts, ends)
    total = sum(found.values())

    def end_of(name: str, number: int, end: int) -> int:
        size = found.get((name, number))
        if size is None or max_offsets is None:
            return end
        share = max_offsets * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        return min(end, starts[name][number] + count)

    return {
        name: {number: end_of(name, number, end) for number, end in partitions.items()}
        for name, partitions in ends.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """What a stream could read next.

    Attributes:
        starts: Where it would begin, for every partition of `ends`.
        ends: Where it could end at most.
        is_moved: There is something new: records, partitions, or a loss.
        has_loss: A loss must be reported at once.
    """

    starts: Ends
    ends: Ends
    is_moved: bool
    has_loss: bool

    @property
    def record_count(self) -> int:
        """Number of records between starts and ends."""
        return sum(sizes(self.starts, self.ends).values())

    def offset(self, image: MetadataImage, max_offsets: int | None = None) -> StreamOffset:
        """Return the next batch's end, of about `max_offsets` records."""
        return StreamOffset.in_image(image, limited(self.starts, self.ends, max_offsets))


def committed_ends(image: MetadataImage, wanted: Partitions) -> dict[str, dict[int, int]]:
    """Return the high watermarks of the partitions `wanted`."""
    return {
        name: {number: int(image.topic(name).partitions[number].high_watermark) for number in each}
        for name, each in wanted.items()
    }


def bounded(ends: Ends, fixed: Ends) -> dict[str, dict[int, int]]:
    """Return `ends`, but none beyond `fixed`, and only of its partitions."""
    return {
        name: {
            number: min(end, fixed[name][number])
            for number, end in partitions.items()
            if number in fixed[name]
        }
        for name, partitions in ends.items()
        if name in fixed
    }


def available(
    image: MetadataImage,
    since: StreamOffset,
    subscription: Subscription,
    *,
    is_data_loss_failed: bool,
    find_cuts: FindCuts,
    fixed_ends: Ends | None = None,
) -> Available:
    """Return what a stream could read after `since`, up to `fixed_ends` if given, which also
    limit the partitions.

    A partition that `since` lacks was added later, and is read from its beginning.

    Raises:
        LogTruncatedError, InconsistentTopicIdError, InconsistentClusterIdError,
        UnknownTopicOrPartitionError, OffsetOutOfRangeError: Records were lost, or belong to
            another topic or cluster, and `is_data_loss_failed`.
    """
    start = checked_position(
        image, since, is_data_loss_failed=is_data_loss_failed, find_cuts=find_cuts
    )
    wanted = partitions_of(image, subscription, is_missing_failed=is_data_loss_failed)
    ends = committed_ends(image, wanted)
    if fixed_ends is not None:
        ends = bounded(ends, fixed_ends)
    dropped = [
        f"{name}-{number}"
        for name, partitions in start.positions.items()
        for number in partitions
        if number not in wanted.get(name, ())
    ]
    if dropped and is_data_loss_failed:
        raise partitions_deleted(dropped, "are in the checkpoint and not in the subscription")
    starts = {
        name: {
            number: first_offset(
                image, start, name, number, is_data_loss_failed=is_data_loss_failed
            )
            for number in partitions
        }
        for name, partitions in ends.items()
    }
    # Where a log shrank, a batch ends no earlier than it begins.
    ends = {
        name: {number: max(end, starts[name][number]) for number, end in partitions.items()}
        for name, partitions in ends.items()
    }
    has_loss = (
        has_new_generations(image, since)
        or any(is_another_topic(image, since, name) for name in ends)
        or _as_dicts(start.positions) != _as_dicts(since.positions)
    )
    return Available(
        starts=starts,
        ends=ends,
        is_moved=has_loss or ends != _as_dicts(start.positions),
        has_loss=has_loss,
    )


def _as_dicts(positions: Ends) -> dict[str, dict[int, int]]:
    return {name: dict(each) for name, each in positions.items()}
