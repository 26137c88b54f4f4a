"""An election's commits: standing, voting, and the one with which a leadership begins.

Votes name voters and not processes, so whoever finds an election half done may end it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_on_spark.base.errors import IllegalStateError
from kafka_on_spark.base.ids import QuorumEpoch
from kafka_on_spark.metadata.quorum.epochs import check_generation, generation_of
from kafka_on_spark.metadata.quorum.lookups import is_log_up_to_date
from kafka_on_spark.metadata.quorum.raft_log import BatchKind, RaftBatch
from kafka_on_spark.metadata.quorum.voter_set import VoterKey
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable


@dataclass(frozen=True, slots=True)
class VoteDecision:
    """What a voter answers a candidate.

    Attributes:
        is_granted: Whether the candidate has its vote, once `change` is committed.
        change: What says so in the voter's table; None: it stands there, or there is none.
    """

    is_granted: bool
    change: TableChange | None = None


def stand(table: VoterTable, epoch: QuorumEpoch) -> TableChange:
    """Return a candidacy's first commit, on the candidate's own table: the epoch, and the vote for
    itself. It ends the candidate's log until it leads or follows.

    Raises:
        IllegalStateError: The voter has seen that epoch.
        InconsistentClusterError: It is an epoch of a later generation of the cluster than the
            voter's, which was given up.
    """
    if epoch <= table.quorum_epoch:
        raise IllegalStateError(
            f"voter {table.key} has seen epoch {table.quorum_epoch} and can't stand in {epoch}:"
            " stand in a later one"
        )
    check_generation(generation_of(table.quorum_epoch), generation_of(epoch))
    return TableChange(quorum_epoch=epoch, vote=table.key)


def decide_vote(voter: VoterTable, candidate: VoterTable) -> VoteDecision:
    """Decide whether `voter` votes for `candidate`, whose table is seen *after* it stood.

    Only in an epoch that is new to the voter: who has seen it has its answer in its table, so a
    vote is given once, and a commit that changes nothing is left out. The vote raises the epoch
    and cuts nothing.
    """
    epoch = candidate.quorum_epoch
    if not candidate.is_candidate or voter.quorum_epoch > epoch:
        return VoteDecision(False)
    if voter.quorum_epoch == epoch:
        return VoteDecision(voter.vote == candidate.key)
    if not is_log_up_to_date(candidate.log.end, voter.log.end):
        return VoteDecision(False)
    return VoteDecision(True, TableChange(quorum_epoch=epoch, vote=candidate.key))


def has_majority(candidate: VoterTable, votes: Iterable[VoterKey]) -> bool:
    """Return whether `votes`, of the candidate's epoch and flushed, are a majority's: of the newest
    set of voters in the candidate's log."""
    voters = candidate.log.voters
    return voters is not None and voters.is_majority({*votes, candidate.key})


def begin_leadership(
    candidate: VoterTable, votes: Iterable[VoterKey], write_id: str
) -> TableChange:
    """Return the commit with which a leadership begins: the leader's mark *and* the epoch's no-op.

    Nothing else makes either (Q8).

    Raises:
        IllegalStateError: The voter is no candidate any more, or `votes` are no majority's.
    """
    if not candidate.is_candidate or not has_majority(candidate, votes):
        raise IllegalStateError(
            f"voter {candidate.key} can't lead epoch {candidate.quorum_epoch}: it stands no more,"
            " or has no majority of votes; read the tables again"
        )
    end = candidate.log.end_offset
    no_op = RaftBatch(end, type(end)(end + 1), candidate.quorum_epoch, write_id, BatchKind.NO_OP)
    return TableChange(leader=candidate.key, appended=(no_op,))
