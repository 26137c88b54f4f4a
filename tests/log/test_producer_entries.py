"""What a log keeps of producers whose headers go: entered, cut, united, and dropped."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.base.errors import OutOfOrderSequenceError, UnknownProducerIdError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.operations import adopt, advance_log_start, append
from kafka_on_spark.log.producer_state import (
    AppendedBefore,
    RegisteredProducers,
    entries_without,
    fence_producer,
    not_above,
    producers_file_name,
    producers_file_number,
    united,
)
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.log.truncation import follow
from tests.builders import NOW_MS, entry, log, staged, stamp

STAMPS = {"a": stamp(3), "b": stamp(8, producer="q", epoch=2), "c": stamp(5, epoch=1)}
P3, Q8, P5 = entry(3), entry(8, epoch=2, base=1), entry(5, epoch=1, base=2)


# fmt: off
CASES = [  # removed expected
    pytest.param(0, None,               id="nothing-goes"),
    # Its last batch is still there, but may be cut off: what went must not be forgotten with it.
    pytest.param(1, {"p": P3},          id="one-of-two-goes"),
    pytest.param(2, {"p": P3, "q": Q8}, id="its-last-batch-goes"),
    pytest.param(3, {"p": P5, "q": Q8}, id="all-go"),
]
# fmt: on


@pytest.mark.parametrize("count, expected", CASES)
def test_a_producer_is_entered_when_a_header_of_it_goes(count, expected):
    state = log("0:abc", stamps=STAMPS)

    assert entries_without(state, state.batches[:count]) == expected


def test_the_log_start_moves_with_the_entries_of_what_it_leaves_behind():
    state = log("0:abc", stamps=STAMPS)

    assert advance_log_start(state, Offset(2)).producers == {"p": P3, "q": Q8}
    assert advance_log_start(log("0:ab"), Offset(2)).producers is None


def sent(state, sequence, epoch=0):
    again = staged("z", epoch=state.leader_epoch, producer=stamp(sequence, epoch=epoch))
    return append(state, again, leader_epoch=state.leader_epoch, now_ms=NOW_MS)


@pytest.mark.parametrize("end, is_cut", [(3, False), (2, True), (1, True)])
def test_what_a_log_is_cut_of_is_not_known_any_more(end, is_cut):
    """Only an unclean election cuts there. The log grows past the offset again: what stands there
    then is another append."""
    entries = {"p": P5, "q": entry(1), "w": entry(epoch=4)}
    kept = {**entries, "p": entry(epoch=1, unknown_to=5)} if is_cut else entries

    assert not_above(entries, Offset(end)) == kept

    state = log("0:wxyz", producers=entries)
    change = adopt(state, leader_epoch=1, truncate_to=Offset(end), floor=Offset(0))
    if not is_cut:
        assert change.producers is None
        return
    state = state.apply(change)
    for name in ("e", "f", "g"):
        state = state.apply(append(state, staged(name, epoch=1), leader_epoch=1, now_ms=NOW_MS))
    for sequence in (5, 4):
        with pytest.raises(UnknownProducerIdError, match=r"may have lost it; read the topic"):
            sent(state, sequence, epoch=1)
    assert isinstance(sent(state, 6, epoch=1), LogChange)


# fmt: off
UNITED = [  # own                        leader's                          united
    pytest.param(entry(3),               entry(5, epoch=1, base=9),        entry(5, epoch=1, base=9),       id="the leader knows more"),
    pytest.param(entry(5, base=9),       entry(3, epoch=1),                entry(5, epoch=1, base=9),       id="the leader has it in a header yet"),
    pytest.param(entry(epoch=4),         entry(3),                         entry(3, epoch=4),               id="only fenced"),
    pytest.param(entry(3),               entry(epoch=4),                   entry(3, epoch=4),               id="only fenced by the leader"),
    pytest.param(entry(unknown_to=5),    entry(5, base=9),                 entry(5, base=9),                id="the leader knows what was unknown"),
    pytest.param(entry(unknown_to=5),    entry(3, base=2),                 entry(3, base=2, unknown_to=5),  id="the leader knows of older ones"),
    pytest.param(entry(3),               entry(unknown_to=7),              entry(3, unknown_to=7),          id="the leader does not know"),
]
# fmt: on


@pytest.mark.parametrize("own, leaders, expected", UNITED)
def test_a_follower_unites_its_leaders_entries_with_its_own(own, leaders, expected):
    assert united({"p": own, "own": P3}, {"p": leaders, "new": Q8}) == {
        "p": expected,
        "own": P3,
        "new": Q8,
    }


def test_a_number_leads_to_one_name_and_back():
    for number in (1, 7, 10**19):
        assert producers_file_number(producers_file_name(number)) == number
    for name in ("producers-1.parquet", "0-a-b.parquet", f"{producers_file_name(3)}.tmp"):
        assert producers_file_number(name) is None


def test_entries_of_expired_ids_go_when_the_file_is_next_written_and_no_later():
    entries = {"p": entry(3, epoch=2), "gone": entry(1, epoch=2), "back": entry(epoch=3)}
    state = log("0:a", stamps=STAMPS, producers=entries)
    registered = RegisteredProducers(ids=frozenset({"p"}), expired_epoch=2)

    after = entries_without(state, state.batches, registered)

    assert after == {"p": entry(3, epoch=2), "back": entry(epoch=3)}
    assert entries_without(state, [], registered) is None
    fenced = fence_producer(state, "p", 9, leader_epoch=0, registered=registered)
    assert fenced.producers == {"p": entry(3, epoch=9), "back": entry(epoch=3)}


def test_after_every_small_history_a_retry_stands_once_or_is_refused():
    """Appends, headers that go, cuts and new growth: a sequence that stands is never appended
    again; one that was cut, and no later one stands, is never called a duplicate."""
    checked = 0
    for steps in product("arct", repeat=5):
        state, stands, sequence = log(fence=0), {}, -1
        for place, step in enumerate(steps):
            state, sequence = _after(state, step, place, stands, sequence)
        for asked in range(sequence + 1):
            checked += 1
            try:
                found = sent(state, asked)
            except (UnknownProducerIdError, OutOfOrderSequenceError):
                continue
            is_duplicate = isinstance(found, AppendedBefore)
            assert is_duplicate >= (asked in stands), (steps, asked)
            assert is_duplicate <= (asked <= max(stands, default=-1)), (steps, asked)
    assert checked > 1000


def _after(state, step, place, stands, sequence):
    """Append, let the first header go as a merge does, cut the last record, or append another's."""
    end = state.log_end_offset
    if step == "a":
        made = staged(f"p{place}", epoch=state.leader_epoch, producer=stamp(sequence + 1))
        stands[sequence + 1] = end
        change = append(state, made, leader_epoch=state.leader_epoch, now_ms=NOW_MS)
        return state.apply(change), sequence + 1
    if step == "t":
        made = staged(f"t{place}", epoch=state.leader_epoch)
        change = append(state, made, leader_epoch=state.leader_epoch, now_ms=NOW_MS)
        return state.apply(change), sequence
    if step == "r":
        headers = [each for each in state.batches if each.producer is not None]
        if not headers:
            return state, sequence
        # A merged segment covers the offsets; no producer stands in it.
        bare = replace(headers[0], producer=None)
        batches = tuple(bare if each is headers[0] else each for each in state.batches)
        producers = entries_without(state, headers[:1])
        return replace(state, batches=batches, producers=producers), sequence
    epoch = state.leader_epoch + 1
    for known, base in list(stands.items()):
        if base >= end - 1:
            del stands[known]
    change = adopt(state, leader_epoch=epoch, truncate_to=Offset(max(end - 1, 0)), floor=Offset(0))
    return state.apply(change), sequence


def test_a_follower_that_starts_anew_keeps_its_leaders_producers_and_its_own_that_hold():
    leader = log("0:abcd", stamps={"a": stamp(3), "b": stamp(8, producer="q")})
    follower = log("0:a", producers={"fenced": entry(epoch=4), "lost": entry(6, base=5)})
    leader = leader.apply(advance_log_start(leader, Offset(3)))

    change = follow(follower, leader, leader_epoch=0, floor=Offset(0))

    assert change.operation == "truncate_fully_and_start_at"
    assert change.producers == {
        "fenced": entry(epoch=4),
        "lost": entry(unknown_to=6),
        "p": entry(3),
        "q": entry(8, base=1),
    }
