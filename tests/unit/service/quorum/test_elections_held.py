"""Elections that a process holds, and what stops one."""

from contextlib import suppress

import pytest

from kafka_on_spark.errors import (
    CommitConflictError,
    KafkaStorageError,
    QuorumUnavailableError,
)
from kafka_on_spark.raft.log.raft_log import BatchKind
from kafka_on_spark.raft.tables.candidacy import decide_vote, stand
from kafka_on_spark.raft.tables.following import adopt, fetch
from kafka_on_spark.service.quorum.settings import QuorumSettings
from tests.voter_fakes import SETTINGS, MemoryQuorum, VoterFault, key_of


@pytest.fixture
def quorum():
    return MemoryQuorum()


@pytest.fixture
def process(quorum):
    process = quorum.process()
    process.decide("first")
    return process


def stood(quorum, node, epoch):
    """Have a voter stand; its process dies then."""
    root = quorum.roots[node]
    assert root.put(root.table, stand(root.table, epoch), {})
    return root


def epochs(quorum):
    return [root.table.quorum_epoch for root in quorum.roots]


def test_a_leader_whose_root_fails_for_the_fetch_timeout_is_replaced(quorum, process):
    quorum.roots[0].is_offline = True

    process.decide("a")

    assert sum(quorum.clock.slept_ms) >= 2000
    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads
    assert epochs(quorum) == [1, 2, 2]


def test_how_long_a_leader_may_fail_is_asked_each_time_anew(quorum, process):
    """The setting is in the log that is waited for."""
    process.settings = lambda: QuorumSettings(fetch_timeout_ms=300)
    quorum.roots[0].is_offline = True

    process.decide("a")

    assert 300 <= sum(quorum.clock.slept_ms) < 2000
    assert quorum.roots[1].table.leads


def test_a_leader_whose_root_fails_for_less_stays(quorum, process):
    quorum.roots[0].is_offline = True

    def come_back():
        if quorum.clock.monotonic_ms() > 1900:
            quorum.roots[0].is_offline = False

    quorum.clock.on_sleep = come_back

    process.decide("a")

    assert epochs(quorum) == [1, 1, 1]


@pytest.mark.parametrize("fault", ["is_offline", "is_read_only"])
def test_what_voters_took_before_the_leader_failed_is_no_sign_of_it(quorum, process, fault):
    """This process knows the third voter as it was long before: others brought it up."""
    other = quorum.process("q")
    other.decide("b")
    other.decide("c")
    process.names()
    assert (
        process.tables.newest(quorum.roots[2].key).log.end_offset
        < quorum.roots[2].table.log.end_offset
    )
    setattr(quorum.roots[0], fault, True)
    began_ms = quorum.clock.monotonic_ms()

    with suppress(CommitConflictError):  # it is decided again
        process.decide("d")

    assert quorum.roots[1].table.leads
    assert quorum.clock.monotonic_ms() - began_ms < 2 * SETTINGS.fetch_timeout_ms


def test_failures_long_apart_do_not_add_up(quorum, process):
    for _ in range(5):
        quorum.roots[0].is_offline = quorum.roots[1].is_offline = True
        with pytest.raises(QuorumUnavailableError):
            process.names()
        quorum.roots[0].is_offline = quorum.roots[1].is_offline = False
        quorum.clock.advance(10_000)
    quorum.roots[0].is_offline = True
    quorum.clock.on_sleep = lambda: setattr(quorum.roots[0], "is_offline", False)

    assert process.names() == ["first"]
    assert epochs(quorum) == [1, 1, 1]


def test_an_old_leader_that_comes_back_is_adopted_by_the_first_who_decides(quorum, process):
    quorum.roots[0].is_offline = True
    process.decide("a")
    quorum.roots[0].is_offline = False

    process.decide("b")

    assert epochs(quorum) == [2, 2, 2]
    assert quorum.roots[0].writes == quorum.roots[1].writes


def test_a_leader_that_can_be_read_and_not_written_is_replaced(quorum, process):
    quorum.roots[0].is_read_only = True

    with pytest.raises(CommitConflictError):
        process.decide("a")
    process.decide("a")

    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads
    assert quorum.roots[0].table.quorum_epoch == 1


def test_a_decision_that_can_still_land_on_a_deposed_leader_is_lost(quorum, process):
    quorum.roots[0].faults.extend([VoterFault.LATE] * 100)

    with pytest.raises(CommitConflictError):
        process.decide("a")
    process.decide("b")
    quorum.roots[0].land()

    assert process.names() == quorum.process("q").names() == ["first", "b"]
    process.decide("c")
    quorum.roots[0].faults.clear()
    process.decide("d")
    assert quorum.roots[0].writes == quorum.roots[1].writes


def test_a_tail_that_the_next_leader_has_not_seen_is_cut(quorum, process):
    """The leader dies with the decision: no other voter has it."""
    quorum.roots[1].faults.append(VoterFault.REFUSED)
    quorum.roots[2].faults.append(VoterFault.REFUSED)
    quorum.roots[2].before_commit = lambda change: setattr(quorum.roots[0], "is_offline", True)

    with pytest.raises(CommitConflictError):
        process.decide("a")

    quorum.roots[2].before_commit = lambda change: None
    quorum.roots[0].is_offline = False
    assert "p" in quorum.roots[0].writes[-1]
    process.decide("b")
    assert process.names() == ["first", "b"]
    assert quorum.roots[0].writes == quorum.roots[1].writes


def test_a_tail_that_the_next_leader_has_seen_is_committed(quorum, process):
    """The leader dies, one voter has the decision, and its answer is lost."""
    quorum.roots[1].faults.append(VoterFault.LOST_ANSWER)
    quorum.roots[1].before_commit = lambda change: setattr(quorum.roots[0], "is_offline", True)
    quorum.roots[2].faults.append(VoterFault.REFUSED)

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads


def test_after_a_split_vote_the_next_epoch_decides(quorum, process):
    quorum.roots[0].is_offline = True
    stood(quorum, 1, 2)
    stood(quorum, 2, 2)

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert epochs(quorum) == [1, 3, 3]


def test_a_candidate_that_died_after_its_own_vote_is_taken_back(quorum, process):
    stood(quorum, 2, 5)

    end = process.decide("a").end_offset
    process.maintain()
    assert epochs(quorum) == [1, 1, 5]

    quorum.clock.advance(2000)
    process.maintain()
    assert epochs(quorum)[0] == 6
    assert quorum.roots[0].table.leads

    process.decide("b")
    assert epochs(quorum) == [6, 6, 6]
    assert quorum.roots[2].writes == quorum.roots[0].writes
    assert process.read(from_offset=end)


def test_a_candidate_that_others_took_back_is_left_alone(quorum, process):
    stood(quorum, 2, 5)
    end = process.decide("a").end_offset
    process.maintain()
    other = quorum.process("q")
    other.decide("b")
    other.maintain()
    quorum.clock.advance(2000)
    other.maintain()
    other.decide("c")

    process.maintain()

    assert epochs(quorum) == [6, 6, 6]
    assert process.read(from_offset=end)


def test_a_voter_that_was_stranded_and_votes_in_a_later_election_is_left_alone(quorum, process):
    """Another process is just taking it back."""
    stood(quorum, 2, 5)
    process.decide("a")
    process.maintain()
    candidate = stood(quorum, 1, 6)
    root = quorum.roots[2]
    assert root.put(root.table, decide_vote(root.table, candidate.table).change, {})
    quorum.clock.advance(2000)

    process.maintain()

    assert epochs(quorum) == [1, 6, 6]


def test_a_voter_stays_stranded_where_others_elected_another_leader(quorum, process):
    """It is theirs to take back: this process knows the old leader."""
    stood(quorum, 2, 5)
    process.decide("a")
    process.maintain()
    quorum.lead(1, epoch=3, voters=[0])
    quorum.clock.advance(2000)

    process.maintain()

    assert epochs(quorum) == [3, 3, 5]
    assert quorum.roots[1].table.leads


def test_a_leader_that_stood_and_whose_process_died_is_elected_in_that_epoch(quorum, process):
    stood(quorum, 0, 2)

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert epochs(quorum) == [2, 2, 2]


def test_a_leader_is_replaced_though_a_look_takes_longer_than_the_fetch_timeout(quorum, process):
    """All but the leader have voted for a candidate that died; each answer takes its time."""
    process.decide("a")
    quorum.process("bring up").names()
    stood(quorum, 1, 2)
    root = quorum.roots[2]
    assert root.put(root.table, decide_vote(root.table, quorum.roots[1].table).change, {})
    run = process.calls.run

    def run_slowly(calls, timeout_ms):
        quorum.clock.advance(2500)
        return run(calls, timeout_ms)

    process.calls.run = run_slowly

    # One look takes all the time that a call has: the next one counts, which follows it.
    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads


def test_an_election_that_was_left_half_done_is_no_leadership_until_another_ends_it(
    quorum, process
):
    """A majority voted; the process died before the mark."""
    candidate = stood(quorum, 1, 2)
    change = decide_vote(quorum.roots[2].table, candidate.table).change
    assert quorum.roots[2].put(quorum.roots[2].table, change, {})
    assert not candidate.table.leads

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert epochs(quorum) == [2, 2, 2]


def test_a_disruptive_candidate_with_a_shorter_log_gets_no_votes(quorum, process):
    """It deposes nobody: the leader and the third voter never hear of it."""
    quorum.roots[2].is_offline = True
    process.decide("a")
    quorum.roots[2].is_offline = False
    shorter = stood(quorum, 2, 2)

    assert not decide_vote(quorum.roots[1].table, shorter.table).is_granted
    process.decide("b")
    assert epochs(quorum) == [1, 1, 2]


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
