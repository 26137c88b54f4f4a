"""A log that does not add up is corrupt; questions about offsets are answered from batches."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.state import check_log
from tests.builders import batch, log

GOOD = log("0:aab 1:cc")


def with_batches_changed(state, place, **fields):
    """Return `state` with one batch changed, as bit rot or a bug would leave it."""
    batches = list(state.batches)
    batches[place] = replace(batches[place], **fields)
    return replace(state, batches=tuple(batches))


# fmt: off
CASES = [
    pytest.param(with_batches_changed(GOOD, 0, record_count=3),                 id="torn-first-batch"),
    pytest.param(with_batches_changed(GOOD, 2, record_count=1),                 id="batch-with-more-records-than-it-says"),
    pytest.param(with_batches_changed(GOOD, 1, base_offset=1),                  id="overlap"),
    pytest.param(replace(GOOD, batches=GOOD.batches[::2]),                      id="gap"),
    pytest.param(replace(GOOD, batches=GOOD.batches[1:]),                       id="first-batch-missing"),
    pytest.param(replace(GOOD, leader_epoch=0),                                 id="batch-of-a-leadership-that-was-not-adopted"),
    pytest.param(replace(GOOD, batches=GOOD.batches[:-1]),                      id="last-batch-missing"),
    pytest.param(replace(GOOD, batches=()),                                     id="all-batches-missing"),
    pytest.param(replace(GOOD, log_end_offset=Offset(6)),                       id="end-above"),
    pytest.param(replace(GOOD, log_end_offset=Offset(4)),                       id="end-inside-a-batch"),
    pytest.param(replace(log(base=4), log_start_offset=Offset(5)),              id="start-above-end"),
    pytest.param(replace(log(), log_start_offset=Offset(-7), log_end_offset=Offset(-7)), id="below-the-first-offset"),
    pytest.param(replace(GOOD, log_start_offset=Offset(-7)),                    id="start-below-the-first-offset"),
    pytest.param(replace(GOOD, batches=(batch("a", 0, "2"), *GOOD.batches)),    id="batch-twice"),
]
# fmt: on


@pytest.mark.parametrize("state", CASES)
def test_log_that_does_not_add_up_is_corrupt(state):
    with pytest.raises(CorruptLogError):
        check_log(state)


def test_epoch_at_every_offset():
    state = log("0:aab 1:cc", base=10)

    assert [state.epoch_at(each) for each in range(9, 16)] == [None, 0, 0, 0, 1, 1, None]


def test_batches_between_are_those_that_hold_any_of_the_range():
    """Every range of a log of three batches, against the batches' own offsets."""
    state, checked = log("0:aab 1:cc", base=1), 0
    for start in range(8):
        for end in range(start + 1, 8):
            checked += 1
            assert state.batches_between(start, end) == tuple(
                each for each in state.batches if each.base_offset < end and each.end_offset > start
            )
    assert checked == 28


def test_a_log_is_checked_from_any_batch_on_behind_the_digest_of_the_one_before():
    state = log("0:abcdef")

    for checked in range(8):
        check_log(state, checked=checked)
