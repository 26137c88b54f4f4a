"""Moments as whole numbers since 1970 UTC."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.moments import given_micros, in_seconds, micros_of, time_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_moment_has_each_of_its_microseconds():
    late = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)

    assert micros_of(late) == 253_402_300_799_999_999
    assert micros_of(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


def test_a_moment_is_the_same_in_every_time_zone():
    there = NOON.astimezone(timezone(timedelta(hours=5)))

    assert given_micros("start", there) == micros_of(NOON)


def test_an_argument_without_a_time_zone_is_refused_by_its_name():
    with pytest.raises(InvalidRequestError, match="start can't be 2026-01-31 12:00:00: it has"):
        given_micros("start", NOON.replace(tzinfo=None))


def test_a_time_in_milliseconds_is_one_in_utc():
    time_ms = micros_of(NOON) // 1000

    assert time_of(time_ms) == NOON
    assert in_seconds(time_ms) == "2026-01-31 12:00:00 UTC"
