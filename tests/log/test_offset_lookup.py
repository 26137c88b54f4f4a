"""Which record answers a time: one that was committed then, of a partition that is there now."""

from dataclasses import replace

import pytest

from kafka_on_spark.log.reading import (
    look_up_offset,
    offset_for_time,
    offset_of_latest_time,
)
from tests.builders import KEY, NOW_MS, image_of, log, partition
from tests.log.test_reading import replicas_of

LED = image_of(partition("1", epoch=0, hw=3, hw_epoch=0, hw_chain=log("0:abc").chain_digest, leo=3))
EMPTY = image_of(partition("1", epoch=0))


def nobody(*_):
    raise AssertionError("nothing is to be read")


# fmt: off
LOOKUPS = [  # now        then    after the records  the answer
    pytest.param(LED,        LED,    0,                 0,    id="the first record"),
    pytest.param(LED,        LED,    1,                 None, id="newer than all"),
    pytest.param(image_of(), LED,    0,                 None, id="the topic is gone"),
    pytest.param(LED,        EMPTY,  0,                 None, id="nothing was committed then"),
]
# fmt: on


@pytest.mark.parametrize("now, then, later_ms, expected", LOOKUPS)
def test_a_time_is_answered_by_what_was_committed_and_is_there(now, then, later_ms, expected):
    replicas, time_us = replicas_of(on_1="0:abc"), (NOW_MS + later_ms) * 1000

    found = look_up_offset(now, then, KEY, time_us, replicas=replicas, read_timestamps=nobody)

    assert (None if found is None else found.offset) == expected


TIMES = [[100, 130, 120], [90], [130, 110]]  # of three segments in three batches: 0-2, 3, 4-5


def read(segment):
    return enumerate(TIMES[segment.size_bytes])  # a segment's place stands where its size would


@pytest.fixture
def timed():
    state = log("1:aaa 2:b 2:cc")
    batches = []
    for place, (batch, times) in enumerate(zip(state.batches, TIMES, strict=True)):
        segment = replace(
            batch.segments[0],
            size_bytes=place,
            timestamp_min_us=min(times),
            timestamp_max_us=max(times),
        )
        batches.append(replace(batch, segments=(segment,)))
    return replace(state, batches=tuple(batches))


def test_every_time_is_answered_as_by_reading_every_record(timed):
    records = [time for times in TIMES for time in times]
    for start in range(7):
        state = replace(timed, log_start_offset=start)
        for asked in range(80, 140):
            wanted = [at for at, time in enumerate(records) if time >= asked and at >= start]
            actual = offset_for_time(state, asked, read)
            assert (actual and actual.offset) == (wanted[0] if wanted else None)


@pytest.mark.parametrize("start, offset", [(0, 1), (2, 4), (5, 5)])
def test_latest_time_is_the_first_of_its_records(timed, start, offset):
    assert offset_of_latest_time(replace(timed, log_start_offset=start), read).offset == offset


def test_the_offset_of_a_record_is_its_place_behind_any_base():
    """Also behind an odd one, where bits of place and base overlap."""
    state = log("0:aaa", base=7)
    segment = replace(state.batches[0].segments[0], timestamp_min_us=10, timestamp_max_us=30)
    state = replace(state, batches=(replace(state.batches[0], segments=(segment,)),))

    answers = [
        offset_for_time(state, asked, lambda _: enumerate([10, 20, 30])) for asked in (10, 20, 30)
    ]

    assert [each.offset for each in answers] == [7, 8, 9]
