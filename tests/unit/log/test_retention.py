"""What outlives the records that retention removes, and which files may be deleted."""

from itertools import product

import pytest

from kafka_on_spark.ids import Offset
from kafka_on_spark.log.operations import advance_log_start, append
from kafka_on_spark.log.producer_state import AppendedBefore
from kafka_on_spark.log.retention import is_deletable, retained_from, surviving_counters
from kafka_on_spark.log.state import ProducerCounter
from tests.builders import NOW_MS, log, staged, stamp
from tests.conformance.logs import batch_of, log_of

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


# fmt: off
FILES = [  # epoch named  fences      expected
    pytest.param(2, False, [3, 4],    True,  id="all-replicas-are-fenced-above"),
    pytest.param(2, True,  [3, 4],    False, id="some-log-names-it"),
    pytest.param(2, False, [3, 2],    False, id="one-is-fenced-at-its-epoch"),
    pytest.param(2, False, [3, 1],    False, id="one-is-fenced-below"),
    pytest.param(2, False, [3, None], False, id="one-is-not-fenced"),
]
# fmt: on


@pytest.mark.parametrize("epoch, named, fences, expected", FILES)
def test_file_may_be_deleted_once_no_commit_can_name_it(epoch, named, fences, expected):
    assert is_deletable(epoch, is_named=named, fences=fences) is expected


def test_what_may_be_deleted_once_may_always_be():
    """Fences only rise: no later fence takes a permission back."""
    checked = 0
    for epoch, first, second in product(range(3), range(4), range(4)):
        if is_deletable(epoch, is_named=False, fences=[first, second]):
            for later, latest in product(range(first, 4), range(second, 4)):
                checked += 1
                assert is_deletable(epoch, is_named=False, fences=[later, latest])
    assert checked == 46


AGES = log_of(
    [batch_of(base, 0, 2, timestamp_ms=1000 * place) for place, base in enumerate((0, 2, 4, 6))]
)


# fmt: off
RETAINED = [  # now   high watermark  ms    bytes  start
    pytest.param(9000, 8, None, None, 0, id="keeps-all"),
    pytest.param(9000, 8, 7500, None, 4, id="by-age"),
    pytest.param(9000, 8, 8000, None, 2, id="exactly-as-old-as-allowed-stays"),
    pytest.param(9000, 8, 0,    None, 8, id="all-too-old-the-log-is-emptied"),
    pytest.param(9000, 5, 0,    None, 4, id="never-above-the-high-watermark"),
    pytest.param(9000, 8, None, 4,    4, id="by-size"),
    pytest.param(9000, 8, None, 3,    4, id="what-is-left-has-at-least-so-much"),
    pytest.param(9000, 8, None, 5,    2, id="as-long-as-the-rest-has-as-much"),
    pytest.param(9000, 8, None, 0,    8, id="no-bytes-are-kept"),
    pytest.param(9000, 8, 7500, 6,    4, id="by-size-and-then-by-age"),
]
# fmt: on


@pytest.mark.parametrize("now_ms, high_watermark, age, size, start", RETAINED)
def test_whole_batches_leave_oldest_first(now_ms, high_watermark, age, size, start):
    found = retained_from(
        AGES,
        high_watermark=Offset(high_watermark),
        now_ms=now_ms,
        retention_ms=age,
        retention_bytes=size,
    )

    assert found == start
