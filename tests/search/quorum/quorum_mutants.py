"""The quorum's rules, each left out or written wrongly: the model must tell."""

from dataclasses import replace
from types import MappingProxyType

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.quorum.raft import VoteDecision, decide_vote, majority_end
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    TableChange,
    VoterTable,
    common_end,
)
from tests.search.quorum.rules import Rules


class SelfVoteLeads(Rules):
    """A vote for itself is taken for leadership."""

    def has_majority(self, candidate, votes):
        return True

    def begin_leadership(self, candidate, votes, write_id):
        end = candidate.log.end_offset
        no_op = RaftBatch(end, end + 1, candidate.quorum_epoch, write_id, BatchKind.NO_OP)
        return TableChange(leader=candidate.key, appended=(no_op,))


class VoterFetchesUncut(Rules):
    """A voter that has voted in the epoch follows its leader without being cut."""

    def adopt(self, voter, leader):
        change = super().adopt(voter, leader)
        if change is not None and voter.quorum_epoch == leader.quorum_epoch:
            return replace(change, cut_to=None)
        return change

    def fetch(self, voter, leader, records_max):
        if voter.quorum_epoch == leader.quorum_epoch and voter.leader == leader.key:
            end = voter.log.end_offset
            if end >= leader.log.end_offset:
                return None
            batches = leader.log.from_offset(end)
            return TableChange(appended=batches[:1] if records_max else batches)
        return super().fetch(voter, leader, records_max)


class OlderEpochCounted(Rules):
    """What a majority has is committed, though no batch of the leader's epoch is (figure 8)."""

    def committed_end(self, view):
        counted = majority_end(view.held.get(each) for each in view.log.voters.keys) or 0
        return max(counted, view.log.proved_end)


class DecidesOnATail(Rules):
    """A decision is appended to a log that is not committed to its end."""

    def writable_end(self, view):
        return view.log.end_offset


class VotesForAnyLog(Rules):
    """A vote is given whatever the candidate's log is."""

    def decide_vote(self, voter, candidate):
        decision = decide_vote(voter, candidate)
        if candidate.is_candidate and voter.quorum_epoch < candidate.quorum_epoch:
            change = TableChange(quorum_epoch=candidate.quorum_epoch, vote=candidate.key)
            return VoteDecision(True, change)
        return decision


class CountsWithoutMark(Rules):
    """A voter is counted for what it holds, in whatever epoch it is and whoever leads it."""

    def see(self, view, table):
        seen = super().see(view, table)
        if seen is not view or table.key == view.key:
            return seen
        end = common_end(table.log, view.log) or 0
        if end <= view.held.get(table.key, 0):
            return view
        return replace(view, held=MappingProxyType({**view.held, table.key: Offset(end)}))


class EmptiedVoterCounts(Rules):
    """An emptied root keeps its identity."""

    def wiped(self, place):
        return self.tables.of(VoterTable(self.keys[place]))


class ReadConfirmedByEpochs(Rules):
    """A read answers with what the leader's log says once a majority is in no later epoch."""

    def see(self, view, table):
        seen = super().see(view, table)
        if seen is view and table.quorum_epoch <= view.epoch and table.key != view.key:
            held = {**view.held, table.key: view.log.end_offset}
            return replace(view, held=MappingProxyType(held))
        return seen


class FollowsAnOlderLeader(Rules):
    """A voter follows a leader whose epoch is over."""

    def adopted(self, voter, leader):
        found, leads = self.tables[voter], self.tables[leader]
        if found.quorum_epoch <= leads.quorum_epoch:
            return Rules.adopted(self, voter, leader)
        epoch = leads.quorum_epoch
        log = found.log.cut_to(common_end(found.log, leads.log) or 0)
        marks = ((leads.key, epoch),)
        return self.tables.of(VoterTable(found.key, epoch, (), marks, log))
