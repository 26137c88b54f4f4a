"""Each operation on a replica's log: what it commits, and what it refuses."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.base.errors import (
    CorruptLogError,
    FencedLeaderEpochError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    ReplicaLostError,
    UnexpectedOffsetError,
    UnknownLeaderEpochError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import operations, producer_state
from kafka_on_spark.log.state import check_log
from tests.builders import NOW_MS, batch, entry, log, staged, text_of

ELSEWHERE = log("0:xyz").chain_digest


def append(state, batch_, *, epoch=0, **fields):
    return operations.append(state, batch_, leader_epoch=epoch, now_ms=NOW_MS, **fields)


def test_append_with_log_append_time_has_the_time_of_its_commit_in_every_segment():
    change = append(log(), staged("a", "2 1", is_log_append_time=True))

    [made] = change.adds
    times = {(each.timestamp_min_us, each.timestamp_max_us) for each in made.segments}
    assert times == {(NOW_MS * 1000, NOW_MS * 1000)}
    assert made.appended_at_ms == NOW_MS


# fmt: off
FENCES = [  # fence epoch expected
    pytest.param(None, 0, UnknownLeaderEpochError, id="never-fenced"),
    pytest.param(3,    2, FencedLeaderEpochError,  id="deposed"),
    pytest.param(3,    4, UnknownLeaderEpochError, id="not-yet-fenced"),
    pytest.param(3,    3, None,                    id="fenced-at-exactly-this"),
]
OPERATIONS = [
    pytest.param(lambda state, epoch: append(state, staged("c", epoch=epoch), epoch=epoch), id="append"),
    pytest.param(lambda state, epoch: operations.append_fetched(state, [batch("c", 1, epoch=3, after=state)], leader_epoch=epoch), id="append_fetched"),
    pytest.param(lambda state, epoch: producer_state.fence_producer(state, "p", 1, leader_epoch=epoch), id="fence_producer"),
]
# fmt: on


@pytest.mark.parametrize("operate", OPERATIONS)
@pytest.mark.parametrize("fence, epoch, refusal", FENCES)
def test_only_a_table_fenced_at_exactly_the_epoch_takes(operate, fence, epoch, refusal):
    state = log("0:a", fence=fence)

    if refusal is None:
        assert operate(state, epoch) is not None
        return
    with pytest.raises(refusal):
        operate(state, epoch)


def test_expected_offset_makes_an_append_conditional():
    state = log("0:ab")

    assert append(state, staged("c"), expected_offset=Offset(2)).log_end_offset == 3
    with pytest.raises(UnexpectedOffsetError):
        append(state, staged("c"), expected_offset=Offset(1))


def chained(state, batches):
    """Return a leader's batches with the chain of a log that they continue."""
    made = []
    for each in batches:
        made.append(replace(state, batches=(*state.batches, *made)).chained(each))
    return made


# fmt: off
FETCHED = [  # log              fence fetched                                           expected
    pytest.param({"text": "0:a"},  2, [batch("b", 1), batch("c", 2, "2", epoch=2)],     "0:ab 2:cc", id="continues"),
    pytest.param({"text": ""},     0, [batch("b", 0)],                                  "0:b",       id="into-an-empty-log"),
    pytest.param({"base": 7},      0, [batch("b", 5, "4")],                             "0:bbbb",    id="into-an-empty-log-from-below-its-start"),
    pytest.param({"base": 7},      0, [batch("b", 5, "2")],                             None,        id="wholly-below-its-start"),
    pytest.param({"base": 7},      0, [batch("b", 8)],                                  None,        id="above-its-start"),
    pytest.param({"text": "0:aa"}, 0, [batch("b", 1, "2")],                             None,        id="overlaps"),
    pytest.param({"text": "0:aa"}, 0, [batch("b", 3)],                                  None,        id="leaves-a-gap"),
    pytest.param({"text": "0:aa"}, 0, [batch("b", 2), batch("c", 4)],                   None,        id="gap-inside"),
    pytest.param({"text": "2:aa"}, 3, [batch("b", 2, epoch=1)],                         None,        id="older-epoch-than-the-log"),
    pytest.param({"text": ""},     3, [batch("b", 0, epoch=2), batch("c", 1, epoch=1)], None,        id="epoch-falls-inside"),
    pytest.param({"text": "0:a"},  1, [batch("b", 1, epoch=2)],                         None,        id="epoch-above-the-leadership"),
]
# fmt: on


@pytest.mark.parametrize("given, fence, fetched, expected", FETCHED)
def test_fetched_batches_continue_the_log_exactly(given, fence, fetched, expected):
    state = log(**given, fence=fence)
    fetched = chained(state, fetched)

    if expected is None:
        with pytest.raises(CorruptLogError):
            operations.append_fetched(state, fetched, leader_epoch=fence)
        return
    after = state.apply(operations.append_fetched(state, fetched, leader_epoch=fence))

    assert text_of(after) == expected
    assert (after.log_start_offset, after.leader_epoch) == (state.log_start_offset, fence)
    check_log(after)


def test_new_start_is_refused_by_a_later_fence():
    with pytest.raises(FencedLeaderEpochError):
        operations.truncate_fully_and_start_at(
            log("4:a"), Offset(9), leader_epoch=3, producers={}, chain_before=ELSEWHERE
        )


# fmt: off
STARTS = [  # to  expected   start
    pytest.param(0, None,                  0, id="where-it-is"),
    pytest.param(1, "0:aab 1:cc",          1, id="inside-a-batch-it-stays-whole"),
    pytest.param(2, "0:b 1:cc",            2, id="one-batch-goes"),
    pytest.param(4, "1:cc",                4, id="two-go-the-third-stays-whole"),
    pytest.param(5, "",                    5, id="all-go-and-the-end-is-known"),
    pytest.param(6, OffsetOutOfRangeError, 0, id="never-ahead"),
]
# fmt: on


@pytest.mark.parametrize("to, expected, start", STARTS)
def test_log_start_advances(to, expected, start):
    state = log("0:aab 1:cc")

    if isinstance(expected, type):
        with pytest.raises(expected):
            operations.advance_log_start(state, Offset(to))
        return
    change = operations.advance_log_start(state, Offset(to))
    if expected is None:
        assert change is None
        return
    after = state.apply(change)
    assert (text_of(after), after.log_start_offset) == (expected, start)
    assert (after.log_end_offset, after.leader_epoch) == (5, 1)
    check_log(after)


def test_producers_fence_is_written_again_and_never_goes_back():
    state = log(producers={"p": entry(4, epoch=2)})

    change = producer_state.fence_producer(state, "p", 3, leader_epoch=0)

    assert state.apply(change).producers == {"p": entry(4, epoch=3)}
    again = producer_state.fence_producer(state, "p", 2, leader_epoch=0)
    assert again.producers is None
    assert state.apply(again).producers == state.producers
    with pytest.raises(ProducerFencedError):
        producer_state.fence_producer(state, "p", 1, leader_epoch=0)


def test_every_short_run_of_operations_leaves_a_dense_log():
    """Five operations in every order of four: offsets dense, fence and start never back."""
    checked = 0
    for names in product(OPERATED, repeat=4):
        state = log(fence=0)
        for place, name in enumerate(names):
            change = OPERATED[name](state, "wxyz"[place])
            after = state if change is None else state.apply(change)
            check_log(after)
            assert after.log_start_offset >= state.log_start_offset
            assert after.leader_epoch >= state.leader_epoch
            state = after
        checked += 1
    assert checked == 625


OPERATED = {
    "append": lambda state, name: append(
        state, staged(name, "2", epoch=state.leader_epoch), epoch=state.leader_epoch
    ),
    "fetch": lambda state, name: operations.append_fetched(
        state,
        [batch(name, state.log_end_offset, "1 2", epoch=state.leader_epoch, after=state)],
        leader_epoch=state.leader_epoch,
    ),
    "lead": lambda state, name: operations.adopt(
        state, leader_epoch=state.leader_epoch + 1, truncate_to=None, floor=Offset(0)
    ),
    "cut": lambda state, name: operations.adopt(
        state,
        leader_epoch=state.leader_epoch + 1,
        truncate_to=state.batches[-1].base_offset
        if len(state.batches) > 1
        else state.log_start_offset,
        floor=Offset(0),
    ),
    "retain": lambda state, name: operations.advance_log_start(
        state, Offset((state.log_start_offset + state.log_end_offset + 1) // 2)
    ),
}


def test_a_leader_that_names_a_file_of_the_followers_log_again_is_no_assertion_and_no_evidence():
    """What a table names is data: one took an append twice, and which one can't be told."""
    state = log("0:a")
    again = state.chained(batch("a", 1, epoch=0))

    with pytest.raises(KafkaStorageError, match="took an append twice") as refused:
        operations.append_fetched(state, [again], leader_epoch=0)

    assert type(refused.value) is KafkaStorageError


# fmt: off
ADOPTED = [  # log            epoch cut   floor expected
    pytest.param("0:ab",      1,    None, 2,    "0:ab",           id="leader-begins"),
    pytest.param("",          0,    None, 0,    "",               id="empty-leader-begins"),
    pytest.param("0:ab 1:cc", 2,    2,    0,    "0:ab",           id="cut-at-an-epoch"),
    pytest.param("0:ab 1:cc", 2,    1,    1,    "0:a",            id="cut-at-the-floor"),
    pytest.param("0:ab",      1,    9,    0,    "0:ab",           id="cut-above-the-end-cuts-nothing"),
    pytest.param("0:ab",      1,    0,    0,    "",               id="cut-all"),
    pytest.param("0:ab 1:cc", 2,    1,    2,    ReplicaLostError, id="cut-below-the-floor"),
    pytest.param("0:ab",      1,    None, 3,    ReplicaLostError, id="shorter-than-the-floor"),
    pytest.param("0:ab 1:cc", 2,    3,    0,    CorruptLogError,  id="cut-inside-a-batch"),
    pytest.param("0:ab 4:c",  3,    None, 0,    FencedLeaderEpochError, id="fenced-above"),
    pytest.param("0:ab 4:c",  4,    0,    0,    None,             id="under-one-epoch-nothing-is-cut"),
]
# fmt: on


@pytest.mark.parametrize("text, epoch, cut, floor, expected", ADOPTED)
def test_adopting_a_leadership(text, epoch, cut, floor, expected):
    state = log(text, fence=int(text.split()[-1][0]) if text else None)

    def adopt():
        return operations.adopt(state, leader_epoch=epoch, truncate_to=cut, floor=Offset(floor))

    if isinstance(expected, type):
        with pytest.raises(expected):
            adopt()
        return
    change = adopt()
    if expected is None:
        assert change is None
        return
    after = state.apply(change)
    assert (text_of(after), after.leader_epoch) == (expected, epoch)
    assert {each.base_offset for each in state.removed_by(change)} == {
        each.base_offset for each in state.batches if each.base_offset >= after.log_end_offset
    }
    check_log(after)
