"""Changes of the set of voters, one voter at a time (KIP-853).

A `VotersRecord` names all voters, is in force when it is appended (and no longer if it is cut), and
is counted by the new set. The next change waits until it, and a batch of the leader's epoch, are
committed: so two sets that may both decide always share a voter. Source: AddVoterHandler,
RemoveVoterHandler.
"""

from kafka_on_spark.base.errors import InvalidRequestError, QuorumUnavailableError
from kafka_on_spark.base.ids import NodeId, ensure
from kafka_on_spark.metadata.quorum.raft_log import RaftLog
from kafka_on_spark.metadata.quorum.replication import LeaderView, majority_end
from kafka_on_spark.metadata.quorum.voter_set import Voter, VoterKey, VoterSet
from kafka_on_spark.metadata.quorum.voter_table import VoterTable


def add_voter(view: LeaderView, voter: Voter, table: VoterTable) -> VoterSet:
    """Return the set with `voter`, whose table was just seen, and written to just before.

    Raises:
        QuorumUnavailableError: An earlier change, or this leader's first batch, is not committed as
            yet, or the voter is more than a batch behind: it would hold up what is committed.
        DuplicateVoterError: A voter of that id is there.
    """
    ensure(table.key == voter.key, (table.key, voter))
    changed = with_new_voter(view, voter)
    if not is_caught_up(view.log, table):
        raise QuorumUnavailableError(
            f"{voter.key} ends at {table.log.end_offset} and the leader {view.key} at"
            f" {view.log.end_offset}: let it catch up, then add it again"
        )
    return changed


def with_new_voter(view: LeaderView, voter: Voter) -> VoterSet:
    """Return the set that `voter` is to be in once it has caught up.

    Raises:
        QuorumUnavailableError: An earlier change, or this leader's first batch, is not committed.
        DuplicateVoterError: A voter of that id is there.
    """
    voters = _settled(view)
    return _checked(voters, voters.with_voter(voter))


def next_node_id(log: RaftLog) -> NodeId:
    """Return the id of a new voter: above all that ever were, so that a list that names a former
    voter's root beside the new one's names two."""
    sets = [each.voters for each in log.batches if each.voters is not None]
    return NodeId(1 + max((key.node_id for voters in sets for key in voters.keys), default=0))


def remove_voter(view: LeaderView, key: VoterKey) -> VoterSet:
    """Return the set without the voter `key`.

    Raises:
        QuorumUnavailableError: An earlier change, or this leader's first batch, is not committed,
            or too few of those that are left hold the log: nothing could be decided any more.
        VoterNotFoundError: No voter has this id and directory, or it is the only one.
        InvalidRequestError: It leads: another is elected first.
    """
    voters = _settled(view)
    changed = voters.without_voter(key)
    if key == view.key:
        raise InvalidRequestError(
            f"{key} leads the metadata quorum: elect another voter, then remove it"
        )
    end = majority_end(view.held.get(each) for each in changed.keys)
    if end is None or end < view.log.end_offset:
        raise QuorumUnavailableError(
            f"without {key} too few of the {len(changed.voters)} voters that are left answer, and"
            " nothing could be decided any more: remove one that does not answer instead, or add"
            " another one first"
        )
    return _checked(voters, changed)


def is_caught_up(log: RaftLog, table: VoterTable) -> bool:
    """Return whether a voter has all of a leader's log but, at most, its last batch, and nothing
    else."""
    border = log.batches[-1].base_offset if log.batches else log.end_offset
    end = table.log.end_offset
    return border <= end <= log.end_offset and table.log.end.epoch <= log.end.epoch


def _settled(view: LeaderView) -> VoterSet:
    """Return the set in force, of which no change is under way."""
    voters, batch, end = view.log.voters, view.log.voters_batch, view.counted_end
    if voters is None or end is None or (batch is not None and batch.end_offset > end):
        raise QuorumUnavailableError(
            "the last change of voters, or the leader's first batch, is not committed on a majority"
            " of voters: wait for it, then change them again",
            leader=view.key,
            epoch=view.epoch,
        )
    return voters


def _checked(voters: VoterSet, changed: VoterSet) -> VoterSet:
    ensure(voters.has_overlapping_majority(changed), (voters, changed))
    return changed
