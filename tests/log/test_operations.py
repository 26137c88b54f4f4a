"""Each operation on a replica's log: what it commits, and what it refuses."""

from dataclasses import replace

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
from kafka_on_spark.base.ids import ChainDigest, ImpossibleValueError, Offset
from kafka_on_spark.log import operations, producer_state
from kafka_on_spark.log.producer_state import find_append
from kafka_on_spark.log.state import check_log
from kafka_on_spark.log.truncation import end_offset_for, epoch_history
from tests.builders import NOW_MS, batch, entry, log, merged, staged, stamp, text_of, with_merged

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


TEXT = "0:aab 1:ccdee 3:f"  # borders: 0 2 3 5 6 8 9; epochs begin at 0, 3 and 8


def merge(state, base=3, end=6, *, epoch=None, stable=None, made=None, inputs=None):
    return operations.replace_neighbours(
        state,
        state.batches_between(base, end) if inputs is None else inputs,
        merged(state, base, end) if made is None else made,
        operation="merge",
        leader_epoch=state.leader_epoch if epoch is None else epoch,
        stable_offset=Offset(state.log_end_offset if stable is None else stable),
    )


def test_a_merge_changes_the_files_and_nothing_else():
    state = log(TEXT)

    change = merge(state)
    after = state.apply(change)

    [only] = after.batches_between(3, 6)
    assert (only.base_offset, only.end_offset, only.record_count) == (3, 6, 3)
    assert only.chain_digest == state.chain_at(Offset(6))
    assert state.removed_by(change) == state.batches_between(3, 6)
    assert after.batches == (*state.batches[:2], only, *state.batches[4:])
    kept = replace(after, batches=state.batches, version=state.version)
    assert kept == state
    check_log(after)


def test_what_is_asked_of_a_log_has_the_same_answer_after_every_merge():
    """Every run of neighbours of one leadership: offsets, epochs, and digests at what is left."""
    state = log(TEXT)
    checked = 0
    for first in range(len(state.batches)):
        for last in range(first + 1, len(state.batches)):
            run = state.batches[first : last + 1]
            if len({each.leader_epoch for each in run}) > 1:
                continue
            checked += 1
            after = with_merged(state, run[0].base_offset, run[-1].end_offset)
            assert epoch_history(after) == epoch_history(state)
            for offset in range(state.log_end_offset + 2):
                assert after.epoch_at(Offset(offset)) == state.epoch_at(Offset(offset))
                is_gone = run[0].base_offset < offset < run[-1].end_offset
                assert (after.merged_over(Offset(offset)) is not None) == is_gone
                expected = None if is_gone else state.chain_at(Offset(offset))
                assert after.chain_at(Offset(offset)) == expected
            for epoch in range(5):
                assert end_offset_for(after, epoch) == end_offset_for(state, epoch)
    assert checked == 4  # aab, ccd, dee, ccdee


def test_a_merge_is_refused_under_another_fence():
    state = log(TEXT)

    with pytest.raises(FencedLeaderEpochError):
        merge(state, epoch=2)
    with pytest.raises(UnknownLeaderEpochError):
        merge(state, epoch=4)


# fmt: off
GONE = [  # what has happened since the inputs were read
    pytest.param(lambda state: with_merged(state, 3, 6, name="n"),                 id="merged by another"),
    pytest.param(lambda state: with_merged(state, 3, 8, name="n"),                 id="merged with more"),
    pytest.param(lambda state: state.apply(operations.advance_log_start(state, Offset(6))), id="deleted"),
    pytest.param(lambda state: state.apply(operations.advance_log_start(state, Offset(5))), id="deleted in part"),
]
# fmt: on


@pytest.mark.parametrize("happens", GONE)
def test_a_merge_whose_inputs_are_gone_is_dropped(happens):
    state = log(TEXT)
    inputs, made = state.batches_between(3, 6), merged(state, 3, 6)

    assert merge(happens(state), made=made, inputs=inputs) is None


NAMED = replace(merged(log(TEXT), 3, 6).segment, file_name="1-m-d.parquet")

# fmt: off
REFUSED = [  # base end  changed fields of the result
    pytest.param(2, 5, {},                                       id="two epochs"),
    pytest.param(3, 6, {"chain_digest": ChainDigest("f" * 32)},  id="another digest at the end"),
    pytest.param(3, 6, {"appended_at_ms": 1},                    id="another time"),
    pytest.param(3, 6, {"leader_epoch": 3},                      id="another epoch than its batches'"),
    pytest.param(3, 6, {"has_append_time": True},                id="another kind of timestamps"),
    pytest.param(3, 6, {"base_offset": 4},                       id="not where its first batch begins"),
    pytest.param(3, 6, {"segment": NAMED},                       id="a name of another fence"),
    pytest.param(3, 6, {"segment": replace(NAMED, file_name="3-m3x3-digestm3x3.parquet", record_count=2)}, id="a record less"),
]
# fmt: on


@pytest.mark.parametrize("base, end, fields", REFUSED)
def test_a_merge_that_would_not_be_the_same_records_is_refused(base, end, fields):
    state = log(TEXT)

    with pytest.raises(ImpossibleValueError):
        merge(state, base, end, made=replace(merged(state, base, end), **fields))


def test_a_merge_above_the_last_stable_offset_is_refused():
    state = log(TEXT)

    assert merge(state, stable=6) is not None
    with pytest.raises(ImpossibleValueError, match="stable"):
        merge(state, stable=5)


def test_a_path_of_the_log_is_not_added_again():
    state = log("1:cc 3:f")
    made = merged(state, 0, 2)
    named = replace(made.segment, file_name=state.batches[1].segments[0].file_name)

    with pytest.raises(ImpossibleValueError):
        merge(state, 0, 2, made=replace(made, segment=named))


def test_a_merge_enters_the_producers_whose_headers_go():
    state = log("0:aabcc", stamps={"a": stamp(3), "b": stamp(4, epoch=2)})

    change = merge(state, 0, 3)

    assert change.producers == {"p": entry(4, epoch=2, base=2)}
    assert find_append(state.apply(change), staged("z", producer=stamp(4, epoch=2))).last


def test_a_follower_that_takes_a_merged_segment_takes_its_leaders_producers():
    leader = log("0:aabc", stamps={"a": stamp(3), "c": stamp(5, producer="q")})
    leader = leader.apply(merge(leader, 0, 3))
    own = {"old": entry(1)}

    def fetch(follower, batches):
        return operations.append_fetched(
            follower, batches, leader_epoch=0, leader_producers=leader.producers
        )

    first = log("", fence=0, producers=own)
    taken = first.apply(fetch(first, leader.batches[:1]))

    assert taken.producers == {**own, "p": entry(3, count=2)}
    # What has its headers brings its producers with them.
    assert fetch(taken, leader.batches[1:]).producers is None


# fmt: off
DAMAGED = [
    pytest.param({"end_offset": Offset(7)},     id="overlap"),
    pytest.param({"end_offset": Offset(4)},     id="gap"),
    pytest.param({"leader_epoch": 9},           id="an epoch above the fence"),
    pytest.param({"leader_epoch": 0},           id="an epoch that goes back"),
]
# fmt: on


@pytest.mark.parametrize("fields", DAMAGED)
def test_a_log_whose_merged_segment_does_not_fit_is_corrupt(fields):
    state = with_merged(log("1:ab 1:ccde"), 2, 5, records=1)
    batches = list(state.batches)
    batches[2] = replace(batches[2], **fields)

    with pytest.raises(CorruptLogError):
        check_log(replace(state, batches=tuple(batches)))


def test_retention_and_cuts_take_merged_segments_whole():
    state = with_merged(log("0:aabb 1:c"), 0, 4)

    started = state.apply(operations.advance_log_start(state, Offset(3)))
    emptied = state.apply(operations.advance_log_start(state, Offset(4)))
    cut = operations.adopt(state, leader_epoch=2, truncate_to=Offset(4), floor=Offset(0))

    assert started.batches == state.batches
    assert [each.base_offset for each in emptied.batches] == [4]
    assert emptied.chain_before == state.batches[0].chain_digest
    assert state.apply(cut).batches == state.batches[:1]
    with pytest.raises(CorruptLogError):
        operations.adopt(state, leader_epoch=2, truncate_to=Offset(2), floor=Offset(0))
