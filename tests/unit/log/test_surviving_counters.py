"""Counters of producers that outlive the records that retention removes."""

import pytest

from kafka_on_spark.ids import Offset
from kafka_on_spark.log.operations import advance_log_start, append
from kafka_on_spark.log.producer_state import AppendedBefore, surviving_counters
from kafka_on_spark.log.state import ProducerCounter
from tests.builders import NOW_MS, log, staged, stamp

STAMPS = {"a": stamp(3), "b": stamp(8, producer="q", epoch=2), "c": stamp(5, epoch=1)}


# fmt: off
CASES = [  # start expected
    pytest.param(0, {},                                                      id="nothing-goes"),
    # Its last batch is still there, but may be cut off: what went must not be forgotten with it.
    pytest.param(1, {"p": ProducerCounter(3, 0)},                            id="one-of-two-goes"),
    pytest.param(2, {"p": ProducerCounter(3, 0), "q": ProducerCounter(8, 2)}, id="its-last-batch-goes"),
    pytest.param(3, {"q": ProducerCounter(8, 2), "p": ProducerCounter(5, 1)}, id="all-go"),
]
# fmt: on


@pytest.mark.parametrize("start, expected", CASES)
def test_counters_are_written_when_a_producers_batch_goes(start, expected):
    assert surviving_counters(log("0:abc", stamps=STAMPS), Offset(start)) == expected


def test_fence_that_was_written_is_not_lowered_by_the_batches_that_go():
    """A run was fenced by its epoch alone; its older batches must not let it in again."""
    state = log("0:a", stamps=STAMPS, producers={"p": ProducerCounter(-1, 7)})

    assert surviving_counters(state, Offset(1)) == {"p": ProducerCounter(3, 7)}


def test_retry_after_retention_is_a_duplicate_whose_offsets_are_unknown():
    state = log("0:abc", stamps=STAMPS)
    state = state.apply(advance_log_start(state, Offset(3)))

    found = append(state, staged("z", producer=stamp(5, epoch=1)), leader_epoch=0, now_ms=NOW_MS)

    assert found == AppendedBefore(None)
