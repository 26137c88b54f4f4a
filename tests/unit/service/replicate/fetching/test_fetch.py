"""One follower's fetch: what it finds of either side, and whose fault a difference is."""

from dataclasses import replace

import pytest

from kafka_on_spark.controller.partitions.reports import PartitionReport, ReplicaReport
from kafka_on_spark.errors import (
    NO_ERROR,
    CorruptLogError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.compaction.progress import CompactionProgress
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.log.upkeep import replacing
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, fetch
from kafka_on_spark.service.replicate.fetching.fetch_refusals import refusal_of
from tests.builders import KEY, address, disk, image_of, log, partition
from tests.fakes import FakeClock, Fault, MemoryReplicaStore, MemoryRoots, MemorySegmentStore

LEADER, FOLLOWER = address(1), address(2)


class Two:
    """A leader and a follower, on disks of their own."""

    def __init__(self, leader: str, follower: str, *, fence: int = 5) -> None:
        self.roots = MemoryRoots({each.root: disk(each.broker_id) for each in (LEADER, FOLLOWER)})
        self.replicas = MemoryReplicaStore(self.roots)
        self.segments = MemorySegmentStore(self.roots)
        for where, text in ((LEADER, leader), (FOLLOWER, follower)):
            self.replicas.create(where)
            self.write(where, text, fence)

    def write(self, where, text: str, fence: int) -> None:
        """Append to a table what `text` has beyond its end."""
        wanted = log(text)
        replica = self.replicas.open(where)
        state = replica.load()
        adds = tuple(b for b in wanted.batches if b.base_offset >= state.log_end_offset)
        for each in adds:
            for segment in each.segments:
                self.segments.put(where, segment)
        replica.commit(
            state,
            LogChange(
                operation="test",
                log_start_offset=Offset(0),
                log_end_offset=wanted.log_end_offset,
                leader_epoch=fence,
                adds=adds,
            ),
        )

    def fetch(self, registration, *, leader_state=None, **fields) -> PartitionReport:
        """Fetch once; return the report."""
        order = FetchOrder(
            key=KEY,
            partition=registration,
            leader=LEADER,
            follower=FOLLOWER,
            **{"fetch_bytes_max": 10**6, **fields},
        )
        result = fetch(order, self.replicas, self.segments, FakeClock(), leader_state)
        return result.report


def test_a_follower_takes_what_it_lacks():
    two = Two("5:abc", "5:a")

    report = two.fetch(partition("1 2"))

    assert report.followers[0].log_end_offset == 3
    assert report.followers[0].counts_in(5)


# fmt: off
TAKEN = [  # what the follower has, bytes that each of two fetches may bring, and how far it is then
    pytest.param("",    None, 2, id="all-in-several-commits"),
    pytest.param("",    200,  0, id="a-part-and-later-the-rest"),
    pytest.param("5:a", None, 0, id="more-than-it-had"),
]
# fmt: on


@pytest.mark.parametrize("follower, copied, finished", TAKEN)
def test_a_follower_is_compacted_as_far_as_the_leader_of_which_it_has_all_at_one_version(
    follower, copied, finished
):
    two = Two("5:abc", follower)
    progress = CompactionProgress(compacted_below=Offset(2), finished_below=Offset(2))
    replica = two.replicas.open(LEADER)
    replica.commit(
        replica.load(), replacing.set_compaction(replica.load(), progress, leader_epoch=5)
    )

    for _ in range(2):
        two.fetch(partition("1 2", isr="1"), fetch_bytes_max=100, copy_bytes_max=copied)

    taken = two.replicas.open(FOLLOWER).load()
    assert taken.log_end_offset == 3
    assert (taken.compaction.compacted_below, taken.compaction.finished_below) == (2, finished)


@pytest.mark.parametrize("epoch", [4, 5])
@pytest.mark.parametrize("follower", ["ab", "abcd", "abcdefg"])
def test_a_follower_outside_isr_and_elr_that_differs_is_bad_and_fetched_again(epoch, follower):
    """It was neither counted nor healed, for ever (found by simulation)."""
    two = Two(f"{epoch}:axc", f"{epoch}:{follower}")

    report = two.fetch(partition("1 2", isr="1"))

    assert (report.leader.is_bad, report.followers[0].is_bad) == (False, True)
    assert not report.followers[0].is_diverged


@pytest.mark.parametrize("isr, elr", [("1 2", ""), ("1", "2")])
@pytest.mark.parametrize("epoch", [4, 5])
@pytest.mark.parametrize("follower", ["ab", "abcd", "abcdefg"])
def test_of_two_complete_logs_that_differ_above_the_high_watermark_none_is_bad(
    epoch, follower, isr, elr
):
    """One of them was rolled back and went on, or changed; it is not known which one."""
    two = Two(f"{epoch}:axc", f"{epoch}:{follower}")

    committed = log(f"{epoch}:a").chain_digest
    report = two.fetch(partition("1 2", isr, elr=elr, hw=1, hw_epoch=epoch, hw_chain=committed))

    assert (report.leader.is_bad, report.followers[0].is_bad) == (False, False)
    assert report.followers[0].is_diverged
    assert not report.followers[0].counts_in(5)


@pytest.mark.parametrize("isr, elr", [("1 2", ""), ("1", "2")])
@pytest.mark.parametrize("right", [1, 2])
def test_of_two_that_differ_the_one_without_what_is_committed_is_bad(isr, elr, right):
    """The registered chain digest decides, whichever replica leads."""
    logs = ["5:abc", "5:axc"]
    two = Two(*(logs if right == 1 else reversed(logs)))
    committed = log("5:ab").chain_digest

    report = two.fetch(partition("1 2", isr, elr=elr, hw=2, hw_epoch=5, hw_chain=committed))

    wrong = {1: 2, 2: 1}[right]
    assert {each.broker_id for each in (report.leader, *report.followers) if each.is_bad} == {wrong}
    assert not any(each.is_diverged for each in report.followers)


def test_a_follower_that_is_ahead_of_an_old_state_of_its_leader_makes_none_bad():
    """A twin brings the follower further while a task still has its old state of the leader."""
    two = Two("5:abcd", "5:a")
    old_state = two.replicas.open(LEADER).load()
    follower = two.replicas.open(FOLLOWER)
    first_state = follower.load()
    two.write(LEADER, "5:abcdef", 5)
    two.write(FOLLOWER, "5:abcdef", 5)
    states = iter([first_state])
    newest = follower.load
    follower.load = lambda: next(states, None) or newest()
    two.replicas.open = {LEADER: two.replicas.open(LEADER), FOLLOWER: follower}.__getitem__

    report = two.fetch(partition("1 2"), leader_state=old_state)

    assert not report.leader.is_bad
    assert [each.is_bad for each in report.followers] == [False]


def test_a_stale_state_of_a_follower_is_no_loss():
    """Its log looks shorter than what is committed; it was called lost (found by simulation)."""
    two = Two("5:abc", "5:a")
    follower = two.replicas.open(FOLLOWER)
    stale = follower.load()
    two.write(FOLLOWER, "5:abc", 5)
    states = iter([stale])
    newest = follower.load
    follower.load = lambda: next(states, None) or newest()
    two.replicas.open = {LEADER: two.replicas.open(LEADER), FOLLOWER: follower}.__getitem__

    committed = log("5:abc").chain_digest
    report = two.fetch(partition("1 2", hw=3, hw_epoch=5, hw_chain=committed))

    assert report.followers[0].error_code == NO_ERROR
    assert report.followers[0].log_end_offset == 3


# fmt: off
DIFFERENCES = [  # epoch  ISR    bad    diverged
    pytest.param(0, "1",   {2},   set(), id="a-follower-on-whom-nothing-rests-is-made-again"),
    pytest.param(0, "1 2", set(), {2},   id="of-two-in-sync-it-is-not-known-which-is-right"),
    pytest.param(1, "1",   set(), set(), id="a-follower-that-moves-to-a-new-leadership-is-cut"),
    pytest.param(1, "1 2", set(), set(), id="also-in-sync"),
]
# fmt: on


@pytest.mark.parametrize("epoch, isr, bad, diverged", DIFFERENCES)
def test_two_logs_that_diverge_inside_one_epoch(epoch, isr, bad, diverged):
    """The same offset, the same epoch, another batch: one of the two was rolled back and went on."""
    two = Two("0:axc", "0:ab", fence=0)

    report = two.fetch(partition("1 2", isr, epoch=epoch))

    seen = [report.leader, *report.followers]
    assert {each.broker_id for each in seen if each.is_bad} == bad
    assert {each.broker_id for each in seen if each.is_diverged} == diverged
    assert [each.is_matched for each in report.followers] == [not (bad or diverged)]


# What a fetch meets, in Kafka's words. The answers are in the decisions: who is bad is taken out
# and another replica serves; the rest is asked again, or waits for the metadata.


def follower_has_heard_of_a_later_leadership(two):
    two.write(FOLLOWER, "5:a", 6)


def leader_has_heard_of_a_later_leadership(two):
    two.write(LEADER, "5:abc", 6)


def follower_does_not_answer(two):
    two.roots[FOLLOWER.root].is_offline = True


def leader_does_not_answer(two):
    two.roots[LEADER.root].is_offline = True


def leaders_segment_is_damaged(two):
    [files] = two.roots[LEADER.root].files.values()
    files[next(iter(reversed(files)))] = b"rot"


def follower_is_gone(two):
    two.roots[FOLLOWER.root].tables.clear()


def leaders_table_is_another_topics(two):
    [table] = two.roots[LEADER.root].tables.values()
    table.identity = replace(table.identity, topic_id="2" * 32)


def leader_was_rolled_back_behind_its_follower(two):
    two.write(FOLLOWER, "5:abc", 5)
    two.roots[LEADER.root].roll_back(1)


# fmt: off
REFUSALS = [  # what happened                              refused, why                       bad
    pytest.param(follower_has_heard_of_a_later_leadership, 2, FencedLeaderEpochError,         False, id="follower-fenced"),
    pytest.param(leader_has_heard_of_a_later_leadership,   1, FencedLeaderEpochError,         False, id="leader-fenced"),
    pytest.param(follower_does_not_answer,                 2, KafkaStorageError,              False, id="follower-storage"),
    pytest.param(leader_does_not_answer,                   1, KafkaStorageError,              False, id="leader-storage"),
    pytest.param(leaders_segment_is_damaged,               1, CorruptLogError,                True,  id="corrupt-source-is-the-leaders"),
    pytest.param(follower_is_gone,                         2, ReplicaLostError,               True,  id="lost"),
    pytest.param(leaders_table_is_another_topics,          1, InconsistentTopicIdError,       True,  id="inconsistent-topic-id"),
    pytest.param(leader_was_rolled_back_behind_its_follower,  2, CorruptLogError,                False, id="out-of-range-above-and-it-stands"),
]
# fmt: on


@pytest.mark.parametrize("happens, broker_id, error, is_bad", REFUSALS)
def test_a_refusal_says_which_replica_refuses_and_why(happens, broker_id, error, is_bad):
    two = Two("5:ab", "5:a")
    two.write(LEADER, "5:abc", 5)
    happens(two)

    report = two.fetch(partition("1 2"))

    refused = [each for each in (report.leader, *report.followers) if each.error_code != NO_ERROR]
    assert report.leader.broker_id == 1
    assert {each.broker_id for each in report.followers} <= {2}
    assert [(each.broker_id, each.error_code) for each in refused] == [(broker_id, error.code)]
    assert refused[0].is_bad is is_bad
    if broker_id == 2:
        assert report.leader.counts_in(5)  # the follower's failure is not the leader's


@pytest.mark.parametrize(
    "fence, error", [(4, UnknownLeaderEpochError), (6, FencedLeaderEpochError)]
)
def test_a_state_of_the_leader_under_another_leadership_is_refused(fence, error):
    two = Two("5:abc", "5:a")
    seen = replace(two.replicas.open(LEADER).load(), leader_epoch=fence)

    report = two.fetch(partition("1 2"), leader_state=seen)

    assert (report.leader.error_code, report.leader.is_bad) == (error.code, False)
    assert two.replicas.open(FOLLOWER).load().log_end_offset == 1


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


ORDER = FetchOrder(
    key=KEY, partition=partition("1 2"), leader=LEADER, follower=FOLLOWER, fetch_bytes_max=1
)
OFFLINE = ReplicaReport(broker_id=2, replica_uuid="uuid2", error_code=56, error="no answer")

# fmt: off
MEANWHILE = [  # the metadata when the answer came            why the fetch was refused
    pytest.param(image_of(partition("1 2")),                  KafkaStorageError,            id="unchanged"),
    pytest.param(MetadataImage(),                             UnknownTopicIdError,          id="topic-deleted"),
    pytest.param(image_of(),                                  UnknownTopicOrPartitionError, id="partition-removed"),
    pytest.param(image_of(partition("3 2", epoch=6)),         UnknownTopicOrPartitionError, id="leader-moved-away"),
    pytest.param(image_of(partition("1 2", leader=2, epoch=6)), FencedLeaderEpochError,     id="another-leads"),
    pytest.param(image_of(partition("1 2", leader=None, epoch=6)), FencedLeaderEpochError,  id="epoch-before-role"),
    pytest.param(image_of(partition("1 2", epoch=4)),         UnknownLeaderEpochError,      id="image-is-behind"),
    pytest.param(image_of(partition("1 2", leader=2)),        NotLeaderOrFollowerError,     id="another-leads-under-the-same-epoch"),
    pytest.param(image_of(partition("1 3")),                  UnknownLeaderEpochError,      id="follower-not-assigned-as-far-as-is-known"),
]
# fmt: on


@pytest.mark.parametrize("image, error", MEANWHILE)
def test_what_the_metadata_says_comes_before_what_the_fetch_met(image, error):
    assert refusal_of(image, ORDER, OFFLINE)[0] == error.code


def test_a_bad_replica_is_bad_whatever_the_metadata_says():
    lost = replace(OFFLINE, error_code=ReplicaLostError.code, is_bad=True)

    assert refusal_of(MetadataImage(), ORDER, lost)[0] == ReplicaLostError.code


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
