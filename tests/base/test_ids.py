"""Which topic names are allowed: Kafka's cases (Source: TopicTest); and which texts are numbers."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kafka_on_spark.base.errors import InvalidRequestError, InvalidTopicError
from kafka_on_spark.base.ids import (
    KEEP,
    PartitionKey,
    TopicPartition,
    check_topic_name,
    given_micros,
    in_seconds,
    micros_of,
    time_of,
    whole_number,
)

GOOD = ["valid", "TOPIC", "nAmEs", "ar6", "VaL1d", "_0-9_.", "...", "__consumer_offsets", "a" * 249]
BAD = ["", ".", "..", "a" * 250, "foo bar", "foo/bar", "../x", "a\n", "\n", "a\0", "foo\\bar", "é", "a:b", "a,b", "a*", "٣"]  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_allowed_name(name):
    check_topic_name(name)


@pytest.mark.parametrize("name", [*BAD, None])
def test_name_that_is_not_allowed_is_told_so(name):
    with pytest.raises(InvalidTopicError, match="topic name"):
        check_topic_name(name)


@pytest.mark.parametrize("code", range(128))
def test_every_ascii_character_alone_is_allowed_as_kafka_allows_it(code):
    name = f"a{chr(code)}"
    if chr(code).isalnum() or chr(code) in "._-":
        check_topic_name(name)
        return
    with pytest.raises(InvalidTopicError):
        check_topic_name(name)


def test_names_for_people_and_keys_for_machines():
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert PartitionKey("id", 3) == ("id", 3)
    assert KEEP is not None


@pytest.mark.parametrize("text, number", [("0", 0), ("+7", 7), ("-12", -12), ("007", 7)])
def test_a_whole_number_is_read_as_java_reads_it(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["1_000", " 1", "1 ", "", "-", "+-1", "1.0", "1e3", "0x1", "\u0661"]
)
def test_what_python_alone_takes_for_a_number_is_none(text):
    with pytest.raises(ValueError, match="is no whole number"):
        whole_number(text)


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
