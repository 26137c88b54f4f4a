"""Limits of a micro-batch: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`.

Pure; the time is passed in. Source: KafkaMicroBatchStream.rateLimit and delayBatch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.errors import InvalidRequestError

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
