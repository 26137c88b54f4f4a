"""Offsets by time: the first record in offset order that is late enough, whatever comes after."""

import pytest

from kafka_on_spark.log.timestamps import segment_at_time, segment_of_max_time
from tests.builders import NOW_MS, log
from tests.conformance.logs import batch_of, log_of

# Times fall and rise again; the second greatest comes first.
LOG = log_of([batch_of(place, 1, 0, time_ms=time) for place, time in enumerate([5, 9, 3, 9, 7])])


@pytest.mark.parametrize("time_ms, offset", [(0, 0), (5, 0), (6, 1), (9, 1), (10, None)])
def test_the_first_segment_that_reaches_the_time_is_found(time_ms, offset):
    found = segment_at_time(LOG, time_ms * 1000)

    assert (None if found is None else found.base_offset) == offset


def test_of_two_greatest_times_the_first_counts():
    found = segment_of_max_time(LOG)

    assert found is not None
    assert found.base_offset == 1


def test_what_lies_below_the_log_start_is_not_found():
    state = log_of(LOG.batches, start=2)

    found = segment_at_time(state, 6000)

    assert found is not None
    assert found.base_offset == 3


def test_a_batch_of_segments_is_searched_segment_by_segment():
    state = log("0:aaa", start=2)

    found = segment_at_time(state, NOW_MS * 1000)

    assert found is not None
    assert found.base_offset == 0  # one segment of three records, of which the last is kept


def test_an_empty_log_has_no_times():
    assert segment_at_time(log(), 0) is None
    assert segment_of_max_time(log()) is None
