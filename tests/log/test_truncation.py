"""Where a follower's log diverges from its leader's: the KIPs' scenarios, then all small logs."""

from functools import partial

import pytest

from kafka_on_spark.base.errors import ReplicaLostError, UnknownLeaderEpochError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import truncation
from kafka_on_spark.log.operations import adopt
from kafka_on_spark.log.truncation import (
    divergence_offset,
    follow,
)
from tests.builders import log, text_of


def cut(follower, leader):
    """Return the follower after it has adopted its leader's leadership."""
    place = divergence_offset(follower, leader)
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


# fmt: off
LEADERS = [
    pytest.param(log("1:x"),         id="it is cut"),
    pytest.param(log("1:x", base=5), id="it begins anew"),
]
# fmt: on


@pytest.mark.parametrize("leader", LEADERS)
def test_a_follower_that_gives_up_more_files_than_one_commit_names_is_made_again(
    monkeypatch, leader
):
    """The commit could be put, and nobody could read the replica after it."""
    follower = log("0:abc")
    move = partial(follow, follower, leader, leader_epoch=1, floor=Offset(0))
    monkeypatch.setattr(truncation, "SEGMENTS_A_BATCH_MAX", 3)
    assert follower.apply(move()).batches == ()

    monkeypatch.setattr(truncation, "SEGMENTS_A_BATCH_MAX", 2)
    with pytest.raises(ReplicaLostError):
        move()


def test_follower_above_its_leader_is_told_that_the_leader_is_behind():
    leader = log("0:a", fence=1)

    with pytest.raises(UnknownLeaderEpochError):
        divergence_offset(log("0:a 2:b"), leader)


def test_walk_back_below_the_first_epoch_ends_at_the_log_start():
    follower = log("3:ab", base=10, fence=3)
    leader = log("1:a 2:bbbbbbbbbbb 4:c", fence=4)

    assert divergence_offset(follower, leader) == 10
