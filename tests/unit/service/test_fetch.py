"""One follower's fetch: what it finds of either side, and whose fault a difference is."""

import pytest

from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.errors import NO_ERROR
from kafka_on_spark.ids import Offset
from kafka_on_spark.log.state import LogChange
from kafka_on_spark.service.replication import FetchOrder, fetch
from tests.builders import KEY, address, disk, log, partition
from tests.fakes import FakeClock, MemoryReplicaStore, MemoryRoots, MemorySegmentStore

LEADER, FOLLOWER = address(1), address(2)


class Two:
    """A leader and a follower, on disks of their own."""

    def __init__(self, leader: str, follower: str, *, fence: int = 5) -> None:
        self.roots = MemoryRoots({each.root: disk(each.broker_id) for each in (LEADER, FOLLOWER)})
        self.replicas = MemoryReplicaStore(self.roots)
        self.segments = MemorySegmentStore(self.roots)
        for where, text in ((LEADER, leader), (FOLLOWER, follower)):
            self.replicas.make(where)
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

    def fetch(self, registration, *, leader_state=None) -> PartitionReport:
        """Fetch once; return the report."""
        order = FetchOrder(
            key=KEY,
            partition=registration,
            leader=LEADER,
            follower=FOLLOWER,
            fetch_bytes_max=10**6,
        )
        result = fetch(order, self.replicas, self.segments, FakeClock(), leader_state)
        return result.report


def test_a_follower_takes_what_it_lacks():
    two = Two("5:abc", "5:a")

    report = two.fetch(partition("1 2"))

    assert report.followers[0].log_end_offset == 3
    assert report.followers[0].counts_in(5)


@pytest.mark.parametrize("isr", ["1 2", "1"])
def test_a_difference_under_the_leaders_own_epoch_is_the_leaders_loss(isr):
    """All that a follower has it took from its leader: what the leader has not, it lost."""
    two = Two("5:axc", "5:ab")

    report = two.fetch(partition("1 2", isr=isr))

    assert report.leader.is_bad
    assert report.followers == ()


def test_a_follower_of_no_account_that_differs_under_an_older_epoch_is_fetched_anew():
    """It was neither counted nor healed, for ever (found by simulation)."""
    two = Two("4:axc", "4:ab")

    report = two.fetch(partition("1 2", isr="1"))

    assert (report.leader.is_bad, report.followers[0].is_bad) == (False, True)


def test_of_two_in_sync_that_differ_under_an_older_epoch_nobody_is_accused():
    two = Two("4:axc", "4:ab")

    report = two.fetch(partition("1 2"))

    assert (report.leader.is_bad, report.followers[0].is_bad) == (False, False)
    assert not report.followers[0].counts_in(5)


def test_a_follower_that_is_ahead_of_an_old_look_at_its_leader_accuses_nobody():
    """A twin brings the follower further while a task still holds its look at the leader."""
    two = Two("5:abcd", "5:a")
    old_look = two.replicas.open(LEADER).load()
    follower = two.replicas.open(FOLLOWER)
    first_look = follower.load()
    two.write(LEADER, "5:abcdef", 5)
    two.write(FOLLOWER, "5:abcdef", 5)
    looks = iter([first_look])
    newest = follower.load
    follower.load = lambda: next(looks, None) or newest()
    two.replicas.open = {LEADER: two.replicas.open(LEADER), FOLLOWER: follower}.__getitem__

    report = two.fetch(partition("1 2"), leader_state=old_look)

    assert not report.leader.is_bad
    assert [each.is_bad for each in report.followers] == [False]


def test_a_stale_look_at_a_follower_is_no_loss():
    """Its log looks shorter than what is committed; it was called lost (found by simulation)."""
    two = Two("5:abc", "5:a")
    follower = two.replicas.open(FOLLOWER)
    stale = follower.load()
    two.write(FOLLOWER, "5:abc", 5)
    looks = iter([stale])
    newest = follower.load
    follower.load = lambda: next(looks, None) or newest()
    two.replicas.open = {LEADER: two.replicas.open(LEADER), FOLLOWER: follower}.__getitem__

    report = two.fetch(partition("1 2", hw=3, hw_epoch=5))

    assert report.followers[0].error_code == NO_ERROR
    assert report.followers[0].log_end_offset == 3


# fmt: off
DIFFERENCES = [  # epoch  ISR    ELR  bad
    pytest.param(0, "1",   "",  {1},   id="in-the-leaders-own-epoch-the-leader-has-lost-what-it-wrote"),
    pytest.param(0, "1 2", "",  {1},   id="the-same-whoever-the-follower-is"),
    pytest.param(1, "1",   "",  {2},   id="in-an-older-epoch-a-follower-on-whom-nothing-rests"),
    pytest.param(1, "1 2", "",  set(), id="of-two-in-sync-nobody-knows-which-is-right"),
    pytest.param(1, "1",   "2", set(), id="nor-with-an-eligible-one"),
]
# fmt: on


@pytest.mark.parametrize("epoch, isr, elr, bad", DIFFERENCES)
def test_a_difference_under_one_epoch_names_who_lost_commits(epoch, isr, elr, bad):
    """The same offset, the same epoch, another batch: one of the two was set back and went on."""
    two = Two("0:axc", "0:ab", fence=0)

    report = two.fetch(partition("1 2", isr, elr=elr, epoch=epoch))

    seen = [report.leader, *report.followers]
    assert {each.broker_id for each in seen if each.is_bad} == bad
    assert not any(each.is_matched for each in report.followers)
