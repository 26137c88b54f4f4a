"""Moments as whole numbers since 1970 UTC, and back. Pure.

A moment becomes a number without `timestamp()`: that is a float, with too few digits for the
microseconds of this century, and the moment of a commit must include that commit.
"""

from datetime import UTC, datetime, timedelta
from operator import index
from typing import Final

from kafka_on_spark.base.errors import InvalidRequestError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

MILLIS_MAX: Final = 2**53
"""Beyond it, no column of µs has such a time."""


def micros_of(moment: datetime) -> int:
    """Return µs since 1970 UTC; `moment` has a time zone."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def given_micros(name: str, moment: datetime) -> int:
    """Return µs since 1970 UTC of an argument.

    Raises:
        InvalidRequestError: It has no time zone.
    """
    if moment.tzinfo is None:
        raise InvalidRequestError(
            f"{name} can't be {moment}: it has no time zone; give one, as in datetime.now(UTC)"
        )
    return micros_of(moment)


def record_micros(timestamp: object) -> int:
    """Return µs since 1970 UTC of a record's timestamp: a datetime, or ms as in Kafka's clients.

    Raises:
        InvalidRequestError: It is something else, has no time zone, or is a number below 0 (Kafka's
            -1 means that there is no timestamp; give None for that).
    """
    if isinstance(timestamp, datetime):
        return given_micros("timestamp", timestamp)
    try:
        millis = -1 if isinstance(timestamp, bool) else index(timestamp)  # type: ignore[arg-type]
    except TypeError:
        millis = -1
    if not 0 <= millis < MILLIS_MAX:
        raise InvalidRequestError(
            f"'timestamp' can't be {timestamp!r:.60}, a {type(timestamp).__name__}: give a datetime"
            " with a time zone, or milliseconds since 1970"
        )
    return millis * 1000


def time_of(time_ms: int) -> datetime:
    """Return ms since 1970 as a time in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def in_seconds(time_ms: int) -> str:
    """Return ms since 1970 for people, such as "2026-01-31 12:00:00 UTC"."""
    return f"{time_of(time_ms):%Y-%m-%d %H:%M:%S} UTC"
