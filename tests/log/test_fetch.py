"""One follower's fetch: what it takes, copies and cuts, and where it begins again."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.fetch import fetch
from tests.builders import partition
from tests.fakes import FakeClock
from tests.log.two_replicas import FOLLOWER, LEADER, ORDER, Two


def test_a_follower_takes_what_it_lacks():
    two = Two("5:abc", "5:a")

    report = two.fetch(partition("1 2"))

    assert report.followers[0].log_end_offset == 3
    assert report.followers[0].counts_in(5)


COMPACTED = CompactionProgress(compacted_below=Offset(2), finished_below=Offset(2))


def finish_compaction(two):
    """Have the leader say that it is compacted, in which it has lost no record."""
    replica = two.replicas.open(LEADER)
    state = replica.load()
    replica.commit(state, operations.set_compaction(state, COMPACTED, leader_epoch=5))


# fmt: off
TAKEN = [  # what the follower has, and bytes that each of two fetches may bring
    pytest.param("",    None, id="all-in-several-commits"),
    pytest.param("",    200,  id="a-part-and-later-the-rest"),
    pytest.param("5:a", None, id="the-rest-of-what-it-had"),
]
# fmt: on


@pytest.mark.parametrize("follower, copied", TAKEN)
def test_a_follower_is_compacted_as_far_as_the_leader_of_which_it_has_all_at_one_version(
    follower, copied
):
    two = Two("5:abc", follower)
    finish_compaction(two)

    for _ in range(2):
        two.fetch(partition("1 2", isr="1"), fetch_bytes_max=100, copy_bytes_max=copied)

    taken = two.replicas.open(FOLLOWER).load()
    assert taken.log_end_offset == 3
    assert taken.compaction == COMPACTED


# fmt: off
CUTS = [  # follower     cut  copied
    pytest.param("4:ab",       0,   3,  id="behind, with nothing of its own"),
    pytest.param("4:abx",      1,   3,  id="a record that its leader does not have"),
    pytest.param("4:abxyz",    3,   3,  id="three"),
    pytest.param("4:ab 5:xyzx", 4,  3,  id="four of a later epoch"),
    pytest.param("4:ab 6:cde", 0,   0,  id="all there already"),
]
# fmt: on


@pytest.mark.parametrize("follower, cut, copied", CUTS)
def test_a_fetch_says_what_it_cut_and_copied(follower, cut, copied):
    two = Two("4:ab 6:cde", follower, fence=6)
    state = two.replicas.open(FOLLOWER).load()
    registration = partition("1 2", isr="1", epoch=7)
    order = replace(ORDER, partition=registration, fetch_bytes_max=10**6)

    result = fetch(order, two.replicas, two.segments, FakeClock())

    assert (result.truncated_records, result.copied_records) == (cut, copied)
    assert state.log_end_offset - cut + copied == 5
    assert result.report.followers[0].log_end_offset == 5
