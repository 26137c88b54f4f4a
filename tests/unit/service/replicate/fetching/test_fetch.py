"""One follower's fetch: what it takes, copies and cuts, and where it begins again."""

from dataclasses import replace
from math import inf

import pytest

from kafka_on_spark.errors import NO_ERROR
from kafka_on_spark.ids import Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.compaction.progress import CompactionProgress
from kafka_on_spark.log.upkeep import replacing
from kafka_on_spark.service.replicate.fetching.fetch import fetch
from tests.builders import log, merged, partition
from tests.fakes import FakeClock, Fault
from tests.unit.service.replicate.fetching.two_replicas import FOLLOWER, LEADER, ORDER, Two


def test_a_follower_takes_what_it_lacks():
    two = Two("5:abc", "5:a")

    report = two.fetch(partition("1 2"))

    assert report.followers[0].log_end_offset == 3
    assert report.followers[0].counts_in(5)


@pytest.mark.parametrize("copy_ms_max, end", [(0, 1), (1000, 1), (1001, 2), (2001, 3), (inf, 3)])
def test_a_follower_takes_what_its_time_suffices_for_and_one_commit_at_least(copy_ms_max, end):
    """Copying a batch takes a second."""
    two, clock = Two("5:abc", ""), FakeClock()
    copy = two.segments.copy

    def copy_slowly(*arguments, **fields):
        clock.advance(1000)
        copy(*arguments, **fields)

    two.segments.copy = copy_slowly
    order = replace(ORDER, partition=partition("1 2"), fetch_bytes_max=100, copy_ms_max=copy_ms_max)

    fetched = fetch(order, two.replicas, two.segments, clock)

    assert fetched.report.followers[0].log_end_offset == end


COMPACTED = CompactionProgress(compacted_below=Offset(2), finished_below=Offset(2))


def finish_compaction(two):
    """Have the leader say that it is compacted, in which it has lost no record."""
    replica = two.replicas.open(LEADER)
    state = replica.load()
    replica.commit(state, replacing.set_compaction(state, COMPACTED, leader_epoch=5))


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


def test_a_follower_that_has_other_files_than_its_leader_is_compacted_by_itself():
    two = Two("5:abc", "")
    two.fetch(partition("1 2", isr="1"), fetch_bytes_max=100, copy_bytes_max=200)
    replica = two.replicas.open(LEADER)
    state = replica.load()
    into = merged(state, 0, 2)
    replica.commit(
        state, replacing.merge(state, state.batches[:2], into, leader_epoch=5, stable_offset=2)
    )
    finish_compaction(two)

    two.fetch(partition("1 2", isr="1"))

    taken = two.replicas.open(FOLLOWER).load()
    assert taken.log_end_offset == 3
    assert (taken.compaction.compacted_below, taken.compaction.finished_below) == (2, 0)


def test_a_follower_that_is_compacted_further_than_its_leader_does_not_go_back():
    two = Two("5:abc", "5:ab")
    replica = two.replicas.open(FOLLOWER)
    replica.commit(
        replica.load(), replacing.set_compaction(replica.load(), COMPACTED, leader_epoch=5)
    )

    two.fetch(partition("1 2", isr="1"))

    taken = two.replicas.open(FOLLOWER).load()
    assert (taken.log_end_offset, taken.compaction) == (3, COMPACTED)


def test_out_of_range_below_the_leaders_start_begins_there_again():
    """What the follower would need next is gone: nothing of its own log is kept."""
    two = Two("5:abcd", "5:a")
    leader = two.replicas.open(LEADER)
    state = leader.load()
    leader.commit(state, operations.advance_log_start(state, Offset(3)))
    committed = log("5:abc").chain_digest

    report = two.fetch(partition("1 2", hw=3, hw_epoch=5, hw_chain=committed, start=3, isr="1"))

    after = two.replicas.open(FOLLOWER).load()
    assert report.followers[0].error_code == NO_ERROR
    assert (after.log_start_offset, after.log_end_offset) == (3, 4)
    assert [each.base_offset for each in after.batches] == [3]


def test_at_the_leaders_start_the_follower_does_not_start_again():
    two = Two("5:abcd", "5:abc")
    leader = two.replicas.open(LEADER)
    state = leader.load()
    leader.commit(state, operations.advance_log_start(state, Offset(3)))
    committed = log("5:abc").chain_digest

    two.fetch(partition("1 2", hw=3, hw_epoch=5, hw_chain=committed, start=3, isr="1"))

    [table] = two.roots[FOLLOWER.root].tables.values()
    done = [each.operation for each in table.changes]
    assert done == ["test", "append_fetched", "advance_log_start"]


@pytest.mark.parametrize("where", [LEADER, FOLLOWER])
def test_a_replica_that_cant_drop_what_was_deleted_is_read_and_counted_all_the_same(where):
    """A leader that could be read lost its ISR and its leadership, if that lasted."""
    two = Two("5:abc", "5:abc")
    two.roots[where.root].faults.append(Fault.OFFLINE)
    committed = log("5:ab").chain_digest

    report = two.fetch(partition("1 2", hw=2, hw_epoch=5, hw_chain=committed, start=2))

    assert (report.leader.error_code, report.leader.log_end_offset) == (NO_ERROR, 3)
    assert report.followers[0].counts_in(5)
    starts = {each: two.replicas.open(each).load().log_start_offset for each in (LEADER, FOLLOWER)}
    assert starts == {LEADER: 2, FOLLOWER: 2} | {where: 0}


# fmt: off
DEALT = [  # bytes dealt, a commit's most    copied
    pytest.param(None, 100,                  5, id="no-throttle"),
    pytest.param(0,    100,                  0, id="nothing-this-time"),
    pytest.param(1,    100,                  1, id="one-batch-at-least"),
    pytest.param(300,  100,                  3, id="as-many-as-were-dealt"),
    pytest.param(301,  100,                  4, id="whole-batches"),
    pytest.param(300,  1000,                 3, id="in-one-commit"),
    pytest.param(None, 0,                    5, id="a-commit-brings-one-batch-at-least"),
    pytest.param(9999, 0,                    5, id="of-a-throttled-fetch-too"),
]
# fmt: on


@pytest.mark.parametrize("dealt, commit_bytes, copied", DEALT)
def test_a_throttled_fetch_copies_what_it_was_dealt(dealt, commit_bytes, copied):
    two = Two("5:abcdef", "5:a")
    order = replace(
        ORDER, partition=partition("1 2"), fetch_bytes_max=commit_bytes, copy_bytes_max=dealt
    )

    result = fetch(order, two.replicas, two.segments, FakeClock())

    assert (result.copied_records, result.copied_bytes) == (copied, 100 * copied)
    assert result.report.followers[0].missing_bytes == 100 * (5 - copied)


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
