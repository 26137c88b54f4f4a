"""What a follower keeps: below its leader's start, where the chains part, and of an emptied log."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import ReplicaLostError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.operations import advance_log_start
from kafka_on_spark.log.producer_state import find_append
from kafka_on_spark.log.truncation import follow, shared_border
from tests.builders import log, staged, stamp, text_of

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
