"""Offsets for "earliest", "latest" and times, of logs whose timestamps do not rise."""

from dataclasses import replace

import pytest

from kafka_on_spark.log.offsets import FoundOffset, offset_for_time, offset_of_latest_time
from tests import builders
from tests.builders import log, with_merged

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


def found(offset, time, epoch):
    return FoundOffset(offset=offset, timestamp_us=time, leader_epoch=epoch)


# fmt: off
CASES = [  # start  asked  answer
    pytest.param(0, 0,   found(0, 100, 1), id="first-of-all"),
    pytest.param(0, 101, found(1, 130, 1), id="first-by-offset-not-by-time"),
    pytest.param(2, 121, found(4, 130, 2), id="nothing-below-the-log-start"),
    pytest.param(2, 50,  found(2, 120, 1), id="log-start-in-a-segment"),
    pytest.param(3, 80,  found(3, 90, 2),  id="later-segment"),
    pytest.param(0, 131, None,             id="newer-than-all"),
]
# fmt: on


@pytest.mark.parametrize("start, asked, expected", CASES)
def test_offset_for_time(timed, start, asked, expected):
    assert offset_for_time(replace(timed, log_start_offset=start), asked, read) == expected


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


def test_an_empty_log_has_no_times():
    empty = log(base=7, fence=3)

    assert offset_for_time(empty, 0, read) is None
    assert offset_of_latest_time(empty, read) is None


def test_the_offset_of_a_record_is_its_place_behind_any_base():
    """Also behind an odd one, where bits of place and base overlap."""
    state = log("0:aaa", base=7)
    segment = replace(state.batches[0].segments[0], timestamp_min_us=10, timestamp_max_us=30)
    state = replace(state, batches=(replace(state.batches[0], segments=(segment,)),))

    answers = [
        offset_for_time(state, asked, lambda _: enumerate([10, 20, 30])) for asked in (10, 20, 30)
    ]

    assert [each.offset for each in answers] == [7, 8, 9]


def test_a_record_of_a_merged_segment_is_where_its_delta_says():
    state = log("0:aabbcc")
    state = with_merged(state, 0, 6, records=3)
    [merged] = state.batches
    segment = replace(merged.segment, timestamp_min_us=10, timestamp_max_us=30)
    state = replace(state, batches=(replace(merged, segment=segment),))

    def read(_):
        return [(1, 10), (2, 30), (5, 20)]

    answers = [offset_for_time(state, asked, read) for asked in (10, 11, 31)]
    assert [each and each.offset for each in answers] == [1, 2, None]
    assert offset_of_latest_time(state, read).offset == 2
    later = replace(state, log_start_offset=3)
    assert offset_of_latest_time(later, read).offset == 5


def test_a_merged_segment_with_gaps_is_read_also_if_its_records_have_one_time():
    state = with_merged(log("0:aabb"), 0, 4, records=1)

    found = offset_for_time(state, 0, lambda _: [(3, 7)])

    assert (found.offset, found.timestamp_us) == (3, 7)


def test_a_merged_segment_without_records_has_no_times():
    state = with_merged(log("0:aabb"), 0, 4, records=0)

    assert offset_for_time(state, 0, read) is None
    assert offset_of_latest_time(state, read) is None


def test_the_records_of_an_append_are_counted_through_its_files():
    made = builders.batch("a", 5, "2 1 2")
    segments = tuple(
        replace(each, timestamp_min_us=time, timestamp_max_us=time)
        for each, time in zip(made.segments, [10, 20, 30], strict=True)
    )
    state = replace(log("0:aaaaa", base=5), batches=(replace(made, segments=segments),))

    answers = [offset_for_time(state, asked, read) for asked in (10, 20, 30)]

    assert [each.offset for each in answers] == [5, 7, 8]
