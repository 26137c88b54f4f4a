"""How far a record's own timestamp may be from the time of its append."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import InvalidTimestampError
from kafka_on_spark.produce.timestamp_limits import check_timestamps
from tests.builders import NOW_MS, TOPIC_ID, image_of, partition, segment

SETTINGS = image_of(
    partition("1"),
    configs={"message.timestamp.after.max.ms": "3000", "message.timestamp.before.max.ms": "70000"},
).settings(TOPIC_ID)
NEWEST_US, OLDEST_US = (NOW_MS + 3000) * 1000, (NOW_MS - 70000) * 1000


def check(first_us, last_us):
    staged = replace(segment("a", 2), timestamp_min_us=first_us, timestamp_max_us=last_us)
    check_timestamps("orders", SETTINGS, {0: [segment("b")], 1: [staged]}, NOW_MS)


def test_a_refusal_says_the_time_or_the_number_where_there_is_no_such_time():
    with pytest.raises(InvalidTimestampError, match=r"1970-01-01T00:00:01\+00:00"):
        check(1_000_000, NEWEST_US)
    with pytest.raises(InvalidTimestampError, match=f"{2**62} µs since 1970"):
        check(OLDEST_US, 2**62)
