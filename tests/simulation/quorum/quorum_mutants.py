"""The driver's rules of a quorum, each left out or written wrongly: a seed must tell.

A mutant patches what it changes; `plan` says which dangers bring it out.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from kafka_on_spark.metadata.quorum import elector, raft, voter_tables
from kafka_on_spark.metadata.quorum.elector import Elections
from kafka_on_spark.metadata.quorum.quorum_log import QuorumLog
from kafka_on_spark.metadata.quorum.raft import (
    LeaderView,
    VoteDecision,
    adopt,
    decide_vote,
    majority_end,
)
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable, common_end
from tests.simulation.quorum.quorum_plan import QuorumPlan
from tests.simulation.quorum.quorum_world import SimulatedRoot, SimulatedVoterLog


def eager(seed: int) -> QuorumPlan:
    """Return a plan of many elections and many writers, and of little else."""
    return QuorumPlan(
        seed=seed,
        steps=1500,
        call_faults={"failed": 0.02, "unsaid": 0.02, "delayed": 0.02},
        events={"away": 0.02, "kill": 0.01, "freeze": 0.01, "cut off": 0.01},
    )


def eager_from(first: int) -> Callable[[int], QuorumPlan]:
    """Return a maker of such plans for what few seeds tell, which begins where one does."""
    return lambda seed: eager(first + seed)


def torn(seed: int) -> QuorumPlan:
    """Return a plan of processes that die between a commit and its flush."""
    return QuorumPlan(
        seed=seed,
        steps=1500,
        call_faults={"unsaid": 0.15},
        events={"kill": 0.02, "power cut": 0.05, "away": 0.01},
    )


def emptied(seed: int) -> QuorumPlan:
    """Return a plan of voters of whom one in a while is emptied while others are away, from the
    second seed on.

    They are seldom emptied: where an emptied one is the voter that it was, a majority of them has no
    log, and all that is told is that nobody decides any more.
    """
    return replace(eager(1 + seed), events={"away": 0.03, "emptied": 0.002, "kill": 0.01})


def denied(seed: int) -> QuorumPlan:
    """Return a plan of two processes in three, each denied by another voter's root."""
    return QuorumPlan(seed=seed, steps=200, denials=2, call_faults={"slow": 0.01})


def flush_is_left_out(patch):
    """A voter is counted for what was loaded, flushed or not."""

    def load(self):
        self._meets("load")
        self._check()
        self.seen = self._root.table
        return self.seen

    patch.setattr(SimulatedVoterLog, "load", load)


def mark_and_no_op_are_two_commits(patch):
    """A leader is marked first, and its no-op follows."""
    begun = Elections._begun

    def marked_first(self, candidate, votes):
        self._tables.commit(candidate, TableChange(leader=candidate.key))
        return begun(self, candidate, votes)

    patch.setattr(Elections, "_begun", marked_first)


def answer_comes_before_the_majority(patch):
    """A decision is answered once it stands on the leader."""
    put = QuorumLog._is_put_and_followed

    def answered(self, write):
        return put(self, write) or write.failure is None

    patch.setattr(QuorumLog, "_is_put_and_followed", answered)


def read_asks_the_leader_alone(patch):
    """A read is confirmed by the leader's own table."""
    patch.setattr(LeaderView, "is_confirmed", property(lambda self: True))


def tail_is_left(patch):
    """A decision is made on whatever the leader's log ends with."""
    patch.setattr(LeaderView, "is_confirmed", property(lambda self: self.counted_end is not None))
    patch.setattr(LeaderView, "committed_end", property(lambda self: self.log.end_offset))


def older_epochs_are_counted(patch):
    """What a majority holds is committed, though no batch of the leader's epoch is (figure 8).

    A read waits for the leader's end (Q10), which is of its epoch, so it would show nothing of
    that: here it ends where the majority does, once that has all of older epochs.
    """

    def counted_end(self):
        return majority_end(self.held.get(each) for each in self.log.voters.keys)

    def is_confirmed(self):
        return (self.counted_end or 0) >= self.log.epoch_start(self.epoch)

    read, confirm = QuorumLog.read, QuorumLog.confirm

    def confirm_cut(self):
        view = confirm(self)
        return replace(view, table=replace(view.table, log=view.log.cut_to(view.counted_end)))

    def counted(self, **bounds):
        self.confirm = partial(confirm_cut, self)
        try:
            return read(self, **bounds)
        finally:
            del self.confirm

    patch.setattr(LeaderView, "counted_end", property(counted_end))
    patch.setattr(LeaderView, "is_confirmed", property(is_confirmed))
    patch.setattr(QuorumLog, "read", counted)
    patch.setattr(voter_tables, "FETCH_RECORDS_MAX", 1)


def voter_counts_without_the_mark(patch):
    """A voter is counted for the length of its log, in whatever epoch and whoever leads it."""
    seen = LeaderView.seen

    def counted(self, voter):
        end = min(voter.log.end_offset, self.log.end_offset)
        if voter.key == self.key or end <= self.held.get(voter.key, -1):
            return seen(self, voter)
        return replace(self, held=MappingProxyType({**self.held, voter.key: end}))

    patch.setattr(LeaderView, "seen", counted)


def voter_follows_uncut(patch):
    """A voter that has voted in the epoch is marked, and keeps what its leader's log lacks."""

    def adopted(voter, leader):
        change = adopt(voter, leader)
        if change is not None and voter.quorum_epoch == leader.quorum_epoch:
            return replace(change, cut_to=None)
        return change

    patch.setattr(voter_tables, "adopt", adopted)


def voter_follows_an_older_leader(patch):
    """A voter adopts whoever leads an epoch, though it has seen a later one (the model's `fence=0`).

    Without the check in `adopt` alone nothing comes of it: no counter of a table may fall. So that
    is left out, too.
    """

    def adopted(voter, leader):
        if not leader.leads or voter.quorum_epoch <= leader.quorum_epoch:
            return adopt(voter, leader)
        end = common_end(voter.log, leader.log) or 0
        return TableChange(quorum_epoch=leader.quorum_epoch, leader=leader.key, cut_to=end)

    apply = VoterTable.apply

    def applied(table, change):
        epoch = change.quorum_epoch
        if epoch is None or epoch >= table.quorum_epoch:
            return apply(table, change)
        log = table.log.cut_to(change.cut_to)
        return VoterTable(table.key, epoch, (), ((change.leader, epoch),), log, table.version + 1)

    patch.setattr(voter_tables, "adopt", adopted)
    patch.setattr(VoterTable, "apply", applied)


def self_vote_leads(patch):
    """A candidate needs nobody's vote but its own."""
    for module in (elector, raft):
        patch.setattr(module, "has_majority", lambda candidate, votes: True)


def vote_is_for_any_log(patch):
    """A voter votes for whoever stands in a later epoch."""

    def decided(voter, candidate):
        if candidate.is_candidate and voter.quorum_epoch < candidate.quorum_epoch:
            change = TableChange(quorum_epoch=candidate.quorum_epoch, vote=candidate.key)
            return VoteDecision(True, change)
        return decide_vote(voter, candidate)

    patch.setattr(elector, "decide_vote", decided)
    patch.setattr(elector, "PAUSE_MS", 10)


def emptied_root_keeps_its_identity(patch):
    """A root that was emptied and made again is the voter that it was."""

    def empty(self):
        self.versions, self.flushed = [VoterTable(self.key)], 1

    patch.setattr(SimulatedRoot, "empty", empty)
    patch.setattr(SimulatedVoterLog, "_check", SimulatedVoterLog._check_answers)


def denial_is_the_roots(patch):
    """A leader whose root denies a process is replaced, though others commit there."""
    patch.setattr(elector, "hears_leader", lambda voter, waiting: False)
    patch.setattr(raft, "hears_leader", lambda voter, waiting: False)


# fmt: off
MUTANTS = {
    # mutant:                          (plan, what tells)
    flush_is_left_out:                 (torn,    ("Q1", "Q2", "Q6", "Q7", "Q8", "Q9")),
    mark_and_no_op_are_two_commits:    (eager,   ("Q8",)),
    answer_comes_before_the_majority:  (eager,   ("Q2",)),
    read_asks_the_leader_alone:        (eager,   ("Q6", "Q10", "Q9")),
    tail_is_left:                      (eager,   ("Q9", "Q6")),
    older_epochs_are_counted:          (eager,   ("Q3", "Q2", "Q10")),
    voter_counts_without_the_mark:     (eager,   ("Q6", "Q10", "Q9", "Q2")),
    voter_follows_uncut:               (eager_from(27), ("Q7", "Q2")),
    voter_follows_an_older_leader:     (eager,   ("Q4",)),
    self_vote_leads:                   (eager,   ("Q8", "Q1")),
    # A candidate has the best log of all that were asked: a vote for a worse one needs a voter that
    # was away then, and is back.
    vote_is_for_any_log:               (eager_from(100), ("Q2", "Q7")),
    emptied_root_keeps_its_identity:   (emptied, ("Q1", "Q2", "Q8", "Q7")),
    denial_is_the_roots:               (denied,  ("L2",)),
}
# fmt: on
