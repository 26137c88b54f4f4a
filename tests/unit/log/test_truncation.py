"""Where a follower's log diverges from its leader's: the KIPs' scenarios, then all small logs."""

from dataclasses import replace
from functools import partial
from itertools import combinations, product, takewhile

import pytest

from kafka_on_spark.errors import CorruptLogError, ReplicaLostError, UnknownLeaderEpochError
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.epochs import EpochEnd, end_offset_for
from kafka_on_spark.log.follower.truncation import (
    TruncationStep,
    divergence_offset,
    fetch_start,
    follow,
    part_to_keep,
    shared_border,
    shared_end,
    truncation_step,
    truncation_steps,
    unread_borders,
)
from kafka_on_spark.log.merged_segment import Border
from kafka_on_spark.log.operations import adopt, advance_log_start
from kafka_on_spark.log.producer_state import find_append
from kafka_on_spark.log.state import check_log
from tests.builders import log, staged, stamp, text_of, with_merged


def cut(follower, leader):
    """Return the follower after it has adopted its leader's leadership."""
    place = divergence_offset(follower, partial(end_offset_for, leader))
    change = adopt(follower, leader_epoch=leader.leader_epoch, truncate_to=place, floor=Offset(0))
    return follower if change is None else follower.apply(change)


# fmt: off
CASES = [  # follower           leader, fenced at            kept
    # KIP-101, scenario 1: the follower restarts knowing an old high watermark; m2 is not lost.
    pytest.param("0:ab",        "0:ab",               1,     "0:ab",      id="kip-101-nothing-lost-on-restart"),
    # KIP-101, scenario 2: both lose power, the other one leads first and writes m3 where m2 was.
    pytest.param("0:ab",        "0:a 1:c",            1,     "0:a",       id="kip-101-no-divergence-after-power-loss"),
    # KIP-279: three replicas, two fast failovers; the answer names an epoch the follower lacks.
    pytest.param("0:a 2:cc",    "0:a 1:b 3:d",        3,     "0:a",       id="kip-279-walks-back-twice"),
    pytest.param("0:ab 2:c",    "0:abb 1:dd",         3,     "0:ab",      id="kip-279-leader-has-more-of-the-shared-epoch"),
    pytest.param("1:a 4:bcd",   "1:a 2:ee 3:f 5:g",   5,     "1:a",       id="kip-279-skips-what-it-never-had"),
    # Nothing is shared.
    pytest.param("1:aa",        "2:bb",               2,     "",          id="nothing-shared"),
    pytest.param("",            "0:ab 1:c",           2,     "",          id="nothing-to-cut"),
    # A follower that is only behind keeps all.
    pytest.param("0:a",         "0:abc 1:d",          1,     "0:a",       id="only-behind"),
    pytest.param("0:ab 1:c",    "0:ab 1:cd",          4,     "0:ab 1:c",  id="only-behind-in-the-latest-epoch"),
    # The follower is ahead in the epoch that both have.
    pytest.param("0:abc",       "0:ab",               1,     "0:ab",      id="unacknowledged-tail-goes"),
    pytest.param("0:abc 1:d",   "0:ab 1:",            2,     "0:ab",      id="two-epochs-of-tail-go"),
]
# fmt: on


@pytest.mark.parametrize("follower, leader, fence, expected", CASES)
def test_follower_keeps_what_it_shares(follower, leader, fence, expected):
    after = cut(
        log(follower, fence=0 if not follower else int(follower.split()[-1][0])),
        log(leader, fence=fence),
    )

    assert text_of(after) == expected
    assert after.leader_epoch == fence


def test_follower_above_its_leader_is_told_that_the_leader_is_behind():
    leader = log("0:a", fence=1)

    with pytest.raises(UnknownLeaderEpochError):
        divergence_offset(log("0:a 2:b"), partial(end_offset_for, leader))


def test_walk_back_below_the_first_epoch_ends_at_the_log_start():
    follower = log("3:ab", base=10, fence=3)
    leader = log("1:a 2:bbbbbbbbbbb 4:c", fence=4)

    assert divergence_offset(follower, partial(end_offset_for, leader)) == 10


def test_log_start_inside_a_batch_that_is_not_shared_cuts_the_batch_whole():
    follower = log("1:aaaa", start=2)
    leader = log("2:bbbbbb")

    after = cut(follower, leader)

    assert (text_of(after), after.log_start_offset, after.log_end_offset) == ("", 2, 2)


def steps(states, epoch):
    """Yield every way in which three replicas come through one leadership.

    One leads: it keeps its log, adopts, and appends nothing or a batch. Each other does not hear
    of it, or adopts it (and is cut), or fetches as well.
    """
    for leader, appended, others in product(range(3), range(2), product(range(3), repeat=2)):
        led = cut(states[leader], replace(states[leader], leader_epoch=epoch))
        if appended:
            led = extended(led, log(f"{epoch}:{'xyz'[leader]}", base=led.log_end_offset).batches)
        after = list(states)
        after[leader] = led
        followers = [each for each in range(3) if each != leader]
        for follower, heard in zip(followers, others, strict=True):
            if heard:
                after[follower] = cut(states[follower], led)
            if heard == 2:
                end_offset = after[follower].log_end_offset
                missing = led.batches_between(end_offset, led.log_end_offset)
                after[follower] = extended(after[follower], missing)
        yield tuple(after), leader


@pytest.fixture(scope="module")
def small_histories():
    """Return all logs that three replicas can have after three leaderships, and the leader."""
    reached = {(): ((log(fence=None),) * 3, 0)}
    for epoch in range(1, 4):
        reached = {
            (*((text_of(each), each.leader_epoch) for each in after), leader): (after, leader)
            for states, _ in reached.values()
            for after, leader in steps(states, epoch)
        }
    return list(reached.values())


def extended(state, batches):
    end_offset = batches[-1].end_offset if batches else state.log_end_offset
    return replace(state, batches=(*state.batches, *batches), log_end_offset=end_offset)


def records(state):
    return [(each.leader_epoch, each.segments[0].uuid) for each in state.batches]


def shared(one, other):
    """Return how many records two logs have in common from the start on."""
    pairs = zip(records(one), records(other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def test_after_every_small_history_logs_agree_wherever_epochs_do(small_histories):
    """Log matching (I4): the same epoch at the same offset means the same records up to it."""
    checked = 0
    for states, _ in small_histories:
        for one, other in combinations(states, 2):
            common = shared(one, other)
            apart = zip(records(one)[common:], records(other)[common:], strict=False)
            checked += 1
            assert all(mine[0] != theirs[0] for mine, theirs in apart)
    assert checked == 13392


def test_after_every_small_history_a_cut_log_is_what_it_shares_with_its_leader(
    small_histories,
):
    """Nothing that is not shared stays, and nothing shared goes."""
    checked = 0
    for states, leader in small_histories:
        newest = states[leader]
        for state in states:
            if state.leader_epoch == newest.leader_epoch:
                continue
            common = shared(state, newest)
            checked += 1

            after = cut(state, newest)

            assert (after.log_end_offset, shared(after, newest)) == (common, common)
            assert after.leader_epoch == newest.leader_epoch
    assert checked == 5688


# fmt: off
STEPS = [  # leader answers  follower has    end    cut   complete
    pytest.param((5, 156),   (5, 200),       200,   156,  True,  id="leader-ends-the-shared-epoch-earlier"),
    pytest.param((4, 150),   (4, 120),       200,   120,  True,  id="follower-ends-the-shared-epoch-earlier"),
    pytest.param((4, 143),   (3, 120),       200,   120,  False, id="epoch-that-the-follower-never-had"),
    pytest.param((4, 202),   (4, 210),       200,   200,  True,  id="never-beyond-the-log-end"),
    pytest.param((4, 202),   (3, 210),       200,   200,  False, id="never-beyond-the-log-end-on-the-way"),
]
# fmt: on


@pytest.mark.parametrize("answer, mine, end, cut_at, complete", STEPS)
def test_one_answer_of_the_leader(answer, mine, end, cut_at, complete):
    step = truncation_step(EpochEnd(*answer), EpochEnd(*mine), Offset(end))

    assert step == TruncationStep(cut_at, is_complete=complete)


def test_two_fast_failovers_take_two_questions():
    leader = log("0:a 2:bbb 4:cc", fence=5)

    steps = truncation_steps(log("0:a 1:x 3:y"), partial(end_offset_for, leader))

    assert steps == [TruncationStep(2, is_complete=False), TruncationStep(1, is_complete=True)]


# fmt: off
FOLLOWED = [  # follower                    the leader has deleted up to 2  kept  from
    pytest.param(log("0:aab"),              log("0:aab", start=2, fence=1), "0:aab", 0, id="a-shared-epoch-vouches-for-what-is-below"),
    pytest.param(log("0:xx"),               log("1:bb", base=2, fence=1),   "",      2, id="below-the-start-of-older-epochs-nothing-is-known"),
    pytest.param(log("0:xxxx"),             log("1:bb", base=2, fence=1),   "",      2, id="the-start-lies-in-a-batch-of-a-deposed-leader"),
    pytest.param(log("0:a"),                log("0:aab", start=2, fence=1), "",      2, id="ends-below-the-start"),
    pytest.param(log("", base=2),           log("1:bb", base=2, fence=1),   "",      2, id="has-nothing-below"),
    pytest.param(log("0:a", fence=1),       log("1:bb", base=2, fence=1),   "",      2, id="the-start-moved-on-while-it-followed"),
    pytest.param(log("0:aa", fence=1),      log("1:bb", base=2, fence=1),   "0:aa",  0, id="compared-when-it-began-to-follow"),
]
# fmt: on


@pytest.mark.parametrize("follower, leader, expected, start", FOLLOWED)
def test_below_the_leaders_log_start_only_what_it_vouches_for_stays(
    follower, leader, expected, start
):
    change = follow(follower, leader, leader_epoch=1, floor=Offset(0))
    after = follower if change is None else follower.apply(change)

    assert (text_of(after), after.log_start_offset) == (expected, start)
    assert after.leader_epoch == 1


def test_a_deposed_leaders_batch_below_the_log_start_answers_no_retry():
    """It was kept, uncommitted, and a retry of its append was told that it was there."""
    retry = staged("x", producer=stamp(7))
    follower = log("0:x", stamps={"x": stamp(7)})
    leader = log("1:b", base=1, fence=1)

    after = follower.apply(follow(follower, leader, leader_epoch=1, floor=Offset(0)))

    assert find_append(follower, retry) is not None
    assert find_append(after, retry) is None


def test_a_member_that_would_lose_committed_records_below_the_log_start_is_lost():
    follower, leader = log("0:x"), log("1:bb", base=2, fence=1)

    with pytest.raises(ReplicaLostError):
        follow(follower, leader, leader_epoch=1, floor=Offset(2))


# fmt: off
PARTED = [  # follower          leader            floor  kept
    pytest.param("5:abc",         "5:axc",          1,     "5:a",    id="inside-an-epoch"),
    pytest.param("5:abcdef",      "5:axc",          0,     "5:a",    id="and-longer"),
    pytest.param("5:ab",          "5:axcd",         0,     "5:a",    id="and-shorter"),
    pytest.param("4:ab 5:cd",     "4:ab 5:cx",      3,     "4:ab 5:c", id="in-the-last-of-two"),
    pytest.param("4:ab 5:cd",     "4:xb 5:cd",      0,     "",       id="the-same-end-behind-another-beginning"),
    pytest.param("5:abc",         "5:abcd",         3,     "5:abc",  id="nowhere"),
    pytest.param("5:abc",         "5:axc",          2,     None,     id="below-what-it-must-have"),
]
# fmt: on


@pytest.mark.parametrize("follower, leader, floor, kept", PARTED)
def test_a_follower_is_cut_to_where_the_chains_part(follower, leader, floor, kept):
    """Epochs alone name nothing to cut there, and would keep the two logs apart for ever."""
    mine, theirs = log(follower), replace(log(leader), leader_epoch=6)

    def decided():
        return follow(mine, theirs, leader_epoch=6, floor=Offset(floor))

    if kept is None:
        with pytest.raises(ReplicaLostError):
            decided()
        return
    after = mine.apply(decided())
    assert (text_of(after), after.leader_epoch) == (kept, 6)
    assert after.chain_digest == theirs.chain_at(after.log_end_offset)


def test_a_follower_behind_an_emptied_leader_starts_there_with_its_chain():
    whole = log("5:abcd")
    emptied = whole.apply(advance_log_start(whole, Offset(4)))

    after = log("5:ab").apply(follow(log("5:ab"), emptied, leader_epoch=5, floor=Offset(0)))

    assert (after.log_start_offset, after.log_end_offset) == (4, 4)
    assert after.chain_digest == emptied.chain_digest == whole.chain_digest


def test_an_emptied_follower_of_another_log_starts_again():
    """Its counters say what lay there: not what its leader's say."""
    mine = log("5:xyz")
    mine = mine.apply(advance_log_start(mine, Offset(3)))
    theirs = replace(log("5:abcd"), leader_epoch=6)

    after = mine.apply(follow(mine, theirs, leader_epoch=6, floor=Offset(0)))

    assert (after.log_start_offset, after.chain_digest) == (0, theirs.chain_before)


# fmt: off
EMPTIED = [  # follower's end  chain there  shared
    pytest.param(0,            0,           0,    id="at the beginning"),
    pytest.param(2,            2,           2,    id="at a border"),
    pytest.param(4,            4,           4,    id="at the leader's end"),
    pytest.param(2,            1,           None, id="of another log"),
    pytest.param(6,            4,           None, id="above the leader's end"),
]
# fmt: on


@pytest.mark.parametrize("end, chain_at, shared", EMPTIED)
def test_an_emptied_log_shares_what_is_below_its_end_by_the_chain_there(end, chain_at, shared):
    leader = log("0:abcd")
    follower = log("", base=end, chain_before=leader.chain_at(Offset(chain_at)))

    assert shared_border(follower, leader, Offset(end)) == shared


BORDERS = "0:aabbc 1:ddeeff"  # ends of batches: 2 4 5, 7 9 11


def read(state, merged):
    """Return a log with the borders of one of its merged segments, as its file has them."""
    plain = log(BORDERS if state.log_end_offset > 5 else "0:aabbc")
    ends = [each for each in plain.batches if each.base_offset >= merged.base_offset]
    known = [
        Border(each.end_offset, each.chain_digest)
        for each in ends
        if each.end_offset <= merged.end_offset
    ]
    return state.with_borders(merged, tuple(known))


def compared(follower, leader, epoch):
    """Return both with all borders that were asked for, and how many that were."""
    count = 0
    while (unread := unread_borders(follower, leader, epoch)) is not None:
        count += 1
        if unread.is_leaders:
            leader = read(leader, unread.merged)
        else:
            follower = read(follower, unread.merged)
    return follower, leader, count


# fmt: off
INSIDE = [  # follower         leader's merged  takes from  reads
    pytest.param("0:aa",        (0, 5),         2,    1,  id="inside the first segment"),
    pytest.param("0:aabb",      (0, 5),         4,    1,  id="further inside"),
    pytest.param("0:aabbc",     (0, 5),         5,    0,  id="at its end"),
    pytest.param("0:aabbc 1:dd", (5, 11),       7,    1,  id="inside the second"),
    pytest.param("0:ax",        (0, 5),         None, 1,  id="of another log"),
]
# fmt: on


@pytest.mark.parametrize("fence", [1, 2])
@pytest.mark.parametrize("text, span, start, reads", INSIDE)
def test_a_follower_that_ends_inside_its_leaders_segment_goes_on_where_it_ends(
    text, span, start, reads, fence
):
    leader = with_merged(replace(log(BORDERS), leader_epoch=2), *span)
    follower = replace(log(text), leader_epoch=fence)

    mine, theirs, count = compared(follower, leader, 2)

    assert count == reads
    if fence == 2:
        assert fetch_start(mine, theirs) == start
    else:
        end = theirs.log_start_offset if start is None else start
        assert (shared_end(mine, theirs, 2) or 0) == end


def test_borders_that_compaction_dropped_vouch_for_nothing():
    leader = with_merged(replace(log(BORDERS), leader_epoch=2), 0, 5)
    [merged, *_] = leader.batches
    follower = log("0:aa", fence=2)
    leader = leader.with_borders(merged, ())

    assert unread_borders(follower, leader, 2) is None
    assert fetch_start(follower, leader) is None


def test_an_emptied_follower_takes_the_rest_of_a_segment_from_where_its_chain_is():
    leader = with_merged(replace(log(BORDERS), leader_epoch=2), 0, 5)
    follower = log("", base=3, fence=2, chain_before=log(BORDERS).chain_at(Offset(2)))

    mine, theirs, _ = compared(follower, leader, 2)

    assert fetch_start(mine, theirs) == 2


# fmt: off
CUT = [  # follower's merged  leader             cut at  kept of the segment
    pytest.param([(0, 5)],          "0:aab",          2,  (0, 2),  id="inside the only one"),
    pytest.param([(0, 5)],          "0:aabb 2:x",     4,  (0, 4),  id="further up"),
    pytest.param([(5, 11)],         "0:aabbc 1:dd",   7,  (5, 7),  id="inside the second"),
    pytest.param([(0, 5), (5, 11)], "0:aabb 2:x",     4,  (0, 4),  id="below a whole one"),
    pytest.param([(0, 5), (5, 11)], "0:aabbc 2:x",    5,  None,    id="between two"),
    pytest.param([(0, 5)],          "0:xxx",          0,  None,    id="nothing is shared"),
]
# fmt: on


@pytest.mark.parametrize("spans, theirs, cut, kept", CUT)
def test_a_cut_inside_a_merged_segment_keeps_what_lies_below_a_border(spans, theirs, cut, kept):
    mine = log(BORDERS)
    for span in spans:
        mine = with_merged(mine, *span, name=f"m{span[0]}")
    leader = replace(log(theirs), leader_epoch=3)

    mine, leader, _ = compared(mine, leader, 3)
    part = part_to_keep(mine, leader, LeaderEpoch(3), Offset(0))

    made = None
    if kept is None:
        assert part is None
    else:
        assert (part[0].base_offset, part[1]) == kept
        made = replace(
            part[0],
            end_offset=part[1],
            chain_digest=mine.chain_at(part[1]),
            segment=replace(
                part[0].segment, file_name="3-kept-d.parquet", record_count=kept[1] - kept[0]
            ),
            borders=None,
        )
    after = mine.apply(
        follow(mine, leader, leader_epoch=LeaderEpoch(3), floor=Offset(0), kept_part=made)
    )
    assert (after.log_end_offset, after.leader_epoch) == (cut, 3)
    check_log(after)


def test_a_cut_inside_a_merged_segment_that_was_not_rewritten_is_refused():
    mine, leader = with_merged(log(BORDERS), 0, 5), log("0:aab", fence=3)
    mine, leader, _ = compared(mine, leader, 3)

    with pytest.raises(CorruptLogError):
        follow(mine, leader, leader_epoch=LeaderEpoch(3), floor=Offset(0))
