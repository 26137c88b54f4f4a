"""Elections that a process holds: what stops one, what is lost in it, and who holds another."""

import pytest

from kafka_on_spark.errors import KafkaStorageError, QuorumUnavailableError
from kafka_on_spark.raft.log.raft_log import BatchKind
from kafka_on_spark.raft.tables.following import adopt, fetch
from tests.unit.service.quorum.candidates import epochs
from tests.voter_fakes import VoterFault


def test_no_majority_answers_and_nothing_is_committed(quorum, process):
    quorum.roots[0].is_offline = quorum.roots[1].is_offline = True
    before = [root.commits for root in quorum.roots]
    quorum.clock.slept_ms.clear()

    with pytest.raises(QuorumUnavailableError, match="no majority of the 3 voters"):
        process.names()
    with pytest.raises(QuorumUnavailableError):
        process.decide("a", at=3)

    assert [root.commits for root in quorum.roots] == before
    assert not quorum.clock.slept_ms


@pytest.mark.parametrize("fault", [VoterFault.LOST_ANSWER, VoterFault.TORN, VoterFault.LOST_BEFORE])
@pytest.mark.parametrize("nth", [0, 1])
@pytest.mark.parametrize("node", [1, 2])
def test_an_answer_that_is_lost_in_an_election_loses_nothing(quorum, process, fault, nth, node):
    quorum.roots[0].is_offline = True
    faults = iter([None] * nth + [fault])

    def strike(change):
        struck = next(faults, None)
        if struck is not None:
            quorum.roots[node].faults.append(struck)

    quorum.roots[node].before_commit = strike

    process.decide("a")

    assert process.names() == ["first", "a"]
    no_ops = [
        each.epoch for each in quorum.roots[1].table.log.batches if each.kind is BatchKind.NO_OP
    ]
    assert len(set(no_ops)) == len(no_ops)


def test_two_processes_that_hold_an_election_at_once_find_one_leader(quorum, process):
    quorum.roots[0].is_offline = True
    other = quorum.process("q")
    rivals = [lambda: other.decide("b")]

    def overtake(change):
        if rivals:
            rivals.pop()()

    quorum.roots[2].before_commit = overtake

    process.decide("a")

    assert sorted(process.names()) == ["a", "b", "first"]
    assert other.names() == process.names()
    assert sum(root.table.leads for root in quorum.roots[1:]) == 1
    assert epochs(quorum) == [1, 2, 2]


def test_figure_8_what_an_older_epoch_left_on_a_majority_is_not_committed(quorum):
    """Voter 0 leads epoch 1, then 1 epoch 2, then 0 epoch 3: its batch of epoch 1 is on two voters
    before its no-op of epoch 3 is."""
    roots = quorum.roots
    quorum.lead(1, epoch=2, voters=[2])
    quorum.lead(0, epoch=3, voters=[2])
    for decide in (adopt, lambda voter, leader: fetch(voter, leader, records_max=1)):
        change = decide(roots[2].table, roots[0].table)
        assert roots[2].put(roots[2].table, change, roots[0].content)
    assert roots[2].writes == ["bootstrap", "no-op-1"]
    process = quorum.process()
    roots[2].is_read_only = True
    process.cut_off = {1}

    with pytest.raises(QuorumUnavailableError):
        process.read(from_offset=0)

    roots[2].is_read_only = False
    quorum.lead(1, epoch=20, voters=[2])
    process.cut_off = {0}
    process.decide("a")
    assert quorum.roots[2].writes[:2] == ["bootstrap", "no-op-2"]
    assert process.names() == ["a"]


def test_a_majority_lost_for_ever_leaves_the_quorum_unavailable(quorum, process):
    quorum.roots[0].empty()
    quorum.roots[1].empty()

    for ask in (process.names, lambda: process.decide("a", at=3)):
        with pytest.raises(QuorumUnavailableError, match="make more of their roots reachable"):
            ask()
    assert quorum.roots[2].table.quorum_epoch == 1


class GoneOnceAskedFor(dict):
    """What fails, while threads change it: it answers by now."""

    def __contains__(self, key):
        found = super().__contains__(key)
        self.pop(key, None)
        return found


def test_voters_answer_again_while_it_is_told_that_they_do_not(quorum, process):
    failures = {root.key: KafkaStorageError("away") for root in quorum.roots}

    for unavailable in (process._unavailable, process._leadership._unavailable):
        process.tables.failures = GoneOnceAskedFor(failures)
        assert "away" in str(unavailable())
