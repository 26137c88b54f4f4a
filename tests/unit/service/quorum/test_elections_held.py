"""Elections that a process holds: what stops one, what is lost in it, and who holds another."""

from contextlib import suppress

import pytest

from kafka_on_spark.errors import CommitConflictError, KafkaStorageError, QuorumUnavailableError
from kafka_on_spark.raft.log.raft_log import BatchKind
from kafka_on_spark.raft.tables.following import adopt, fetch
from kafka_on_spark.service.quorum.settings import QuorumSettings
from tests.unit.service.quorum.candidates import epochs, stood
from tests.voter_fakes import VoterFault, key_of


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


def test_the_best_voter_may_be_unable_to_stand(quorum, process):
    """The leader is away and the voter with the best log takes no commits: nobody can be elected."""
    quorum.roots[0].is_offline = True
    quorum.roots[1].is_read_only = True

    with pytest.raises(QuorumUnavailableError):
        process.names()

    quorum.roots[1].is_read_only = False
    assert process.names() == ["first"]


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


def test_who_is_late_to_have_a_voter_stand_goes_on_with_its_election(quorum, process):
    quorum.roots[0].is_offline = True
    rivals = [1]
    quorum.roots[1].before_commit = lambda change: rivals and stood(quorum, rivals.pop(), 2)

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert epochs(quorum) == [1, 2, 2]
    assert process._leadership._reading.failed_elections == 0


def test_a_process_that_was_frozen_in_its_tries_has_not_waited(quorum, process):
    """The first put finds it frozen for long and is lost, so is the second; the leader is well."""
    frozen_ms = iter([10_000, 0])

    def freeze(change):
        duration_ms = next(frozen_ms, None)
        if duration_ms is not None:
            quorum.clock.advance(duration_ms)
            quorum.roots[0].faults.append(VoterFault.LOST_BEFORE)

    quorum.roots[0].before_commit = freeze
    process.settings = lambda: QuorumSettings(patience_ms=60_000)

    process.decide("a")

    assert epochs(quorum) == [1, 1, 1]
    assert process.names() == ["first", "a"]


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


@pytest.mark.parametrize("trouble", ["_reading", "_committing"])
def test_another_thread_may_reach_the_leader_while_one_waits_for_it(
    quorum, process, trouble, monkeypatch
):
    fault = {"_reading": "is_offline", "_committing": "is_read_only"}[trouble]
    setattr(quorum.roots[0], fault, True)
    ended, shared = [], getattr(process._leadership, trouble)
    monotonic_ms = quorum.clock.monotonic_ms

    def after_another_succeeded():
        if shared.waiting is not None and not ended:
            shared.end()
            ended.append(trouble)
        return monotonic_ms()

    monkeypatch.setattr(quorum.clock, "monotonic_ms", after_another_succeeded)

    with suppress(CommitConflictError):  # the new leader lacks what the old one took
        process.decide("a")

    assert ended
    assert quorum.roots[1].table.leads
    process.decide("b")


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


def test_voters_fail_while_it_is_described_which_do(quorum, process):
    process.names()
    failures = process.tables.failures
    quorum.roots[2].is_offline = True

    class FailsTogether:
        @property
        def message(self):
            failures[key_of(7)] = KafkaStorageError("away")
            return "fails"

    former = key_of(5)
    failures[former] = FailsTogether()

    assert [each.problem for each in process.describe().voters][2] is not None
