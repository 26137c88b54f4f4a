"""Where groups are reset to: Kafka's targets and times, and what is not there."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.groups import new_offset, target_of
from kafka_on_spark.metadata.image import GroupOffset
from tests.builders import KEY, image_of, partition


def image(before):
    """Return a partition with the offsets 2 to 8, and a group at `before`."""
    base = image_of(partition("1", hw=8, hw_epoch=0, start=2))
    saved = {} if before is None else {("g", KEY): GroupOffset(offset=before, leader_epoch=None)}
    return replace(base, group_offsets=saved)


def by_second(timestamp_us):
    """The record of offset n was made in second n; those of 2 to 7 are committed."""
    second = -(-timestamp_us // 1_000_000)
    return max(second, 2) if second < 8 else None


# fmt: off
TARGETS = [  # stands at, target, new offset, what was asked for if that is not there
    (5,    ("earliest", 0),        2, None),
    (5,    ("latest", 0),          8, None),
    (None, ("latest", 0),          8, None),
    (5,    ("current", 0),         5, None),
    (None, ("current", 0),         8, None),
    (1,    ("current", 0),         2, 1),       # its records were deleted
    (9,    ("current", 0),         8, 9),       # they are gone by an unclean election
    (5,    ("offset", 3),             3, None),
    (None, ("offset", 8),             8, None),
    (5,    ("offset", 0),             2, 0),
    (5,    ("offset", 100),           8, 100),
    (5,    ("shift", 2),          7, None),
    (5,    ("shift", -3),         2, None),
    (5,    ("shift", -4),         2, 1),
    (5,    ("shift", 4),          8, 9),
    (5,    ("time", 3_000_000), 3, None),
    (5,    ("time", 3_000_001), 4, None),
    (5,    ("time", 0),         2, None),
    (5,    ("time", 9_000_000), 8, None),    # none as young: the end, as in Kafka
]
# fmt: on


@pytest.mark.parametrize("before, target, offset, asked", TARGETS)
def test_a_reset_ends_in_what_is_committed(before, target, offset, asked):
    found = new_offset(image(before), "g", KEY, target, by_second)

    assert found == (offset, offset if asked is None else asked)


def test_what_has_no_offset_can_not_be_shifted():
    with pytest.raises(InvalidRequestError) as caught:
        new_offset(image(None), "g", KEY, ("shift", 1), by_second)

    assert str(caught.value) == (
        "group 'g' has no offset of orders-0 to shift: name partitions of which it has one, or"
        " reset it to an offset"
    )


# fmt: off
MOMENTS = [
    ("1970-01-01T00:00:01.500",       1_500_000),   # without a zone: UTC
    ("1970-01-01T00:00:01.500Z",      1_500_000),
    ("1970-01-01T01:00:00+01:00",     0),
    ("1970-01-02",                    86_400_000_000),
]
# fmt: on


@pytest.mark.parametrize("text, expected", MOMENTS)
def test_moments(text, expected):
    assert target_of("to_datetime", text) == ("time", expected)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "1700000000000"])
def test_no_moments(text):
    with pytest.raises(InvalidRequestError, match="--to-datetime can't be"):
        target_of("to_datetime", text)
