"""Whom a voter grants its vote, and for whom it would vote (a pre-vote, KIP-996).

A vote is of a voter whose epoch is the candidate's: who is asked in a later epoch becomes
unattached in it first. Source: QuorumState.unattachedOrProspectiveCanGrantVote.
"""

from kafka_on_spark.raft.states.election_state import ElectionState
from kafka_on_spark.raft.voter_set import VoterKey


def grants_vote(election: ElectionState, candidate: VoterKey, *, is_log_up_to_date: bool) -> bool:
    """Return whether a voter without a candidacy or leadership of its own votes for `candidate`.

    Once in an epoch: the vote that it gave is given again, whatever the logs are, to the same node
    and directory, and to nobody else. Who knows a leader of the epoch gives none.
    """
    if election.voted_key is not None:
        return election.voted_key.stands_for(candidate)
    return election.leader_id is None and is_log_up_to_date


def grants_pre_vote(*, is_log_up_to_date: bool, hears_leader: bool) -> bool:
    """Return whether a voter that does not lead would vote, were there an election: so it is unless
    it hears a leader, or its log is better."""
    return is_log_up_to_date and not hears_leader
