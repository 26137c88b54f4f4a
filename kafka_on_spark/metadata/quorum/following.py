"""A follower's commits: adopting a leader, and fetching its batches.

Adopting is one commit that raises the epoch, marks the leader and cuts what the leader's log does
not share. **It is due wherever the mark of the epoch is missing, also where the voter has voted in
that epoch**: a vote raises the epoch and cuts nothing.
"""

from collections.abc import Iterator
from itertools import takewhile

from kafka_on_spark.base.errors import (
    FencedLeaderEpochError,
    InconsistentClusterError,
    NotLeaderOrFollowerError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.quorum.epochs import generation_of
from kafka_on_spark.metadata.quorum.lookups import common_end
from kafka_on_spark.metadata.quorum.raft_log import RaftBatch
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable


def follows(voter: VoterTable, leader: VoterTable) -> bool:
    """Return whether `voter` is in the leader's epoch and has marked it."""
    return voter.quorum_epoch == leader.quorum_epoch and voter.leader == leader.key


def adopt(voter: VoterTable, leader: VoterTable) -> TableChange | None:
    """Return the commit by which `voter` adopts `leader`; None: it has.

    Raises:
        NotLeaderOrFollowerError: `leader` leads nothing.
        FencedLeaderEpochError: The voter has seen a later epoch: the leader is deposed.
        InconsistentClusterError: The voter has marked another leader of that epoch, or would lose
            what its own log proves committed: a table went back, or is another cluster's.
    """
    _check_leader(voter, leader)
    if follows(voter, leader):
        return None
    if voter.quorum_epoch == leader.quorum_epoch and voter.leader is not None:
        raise InconsistentClusterError(
            f"epoch {leader.quorum_epoch} has two leaders: voter {voter.key} follows"
            f" {voter.leader}, and {leader.key} leads; a root was restored from a copy:"
            " remove that voter"
        )
    end = common_end(voter.log, leader.log)
    _check_cut(voter, leader, end)
    return TableChange(
        quorum_epoch=leader.quorum_epoch,
        leader=leader.key,
        cut_to=end if end < voter.log.end_offset else None,
    )


def _check_leader(voter: VoterTable, leader: VoterTable) -> None:
    if not leader.leads:
        raise NotLeaderOrFollowerError(
            f"voter {leader.key} leads nothing: look for the leader again"
        )
    if voter.quorum_epoch > leader.quorum_epoch:
        raise FencedLeaderEpochError(
            f"voter {voter.key} is in epoch {voter.quorum_epoch}: the leadership of {leader.key} in"
            f" {leader.quorum_epoch} is over; look for the leader again"
        )


def _check_cut(voter: VoterTable, leader: VoterTable, end: Offset) -> None:
    proved = voter.log.proved_end
    if end >= proved:
        return
    if generation_of(voter.log.end.epoch) < generation_of(leader.quorum_epoch):
        # What it knew when the cluster was forced without it is gone: the leader is well.
        raise InconsistentClusterError(
            f"the root of voter {voter.key} was given up when the cluster was forced, and holds"
            " decisions that are gone: empty it, then add it"
        )
    raise InconsistentClusterError(
        f"voter {voter.key} would be cut to {end}, below {proved}, which its log proves committed:"
        f" the log of {leader.key} went back, or is another cluster's; stop everything"
    )


def fetch(
    voter: VoterTable, leader: VoterTable, *, records_max: int | None = None
) -> TableChange | None:
    """Return the commit by which `voter` appends what it lacks of the leader's log, in order, whole
    batches, at most `records_max` records but at least a batch; None: it lacks nothing of what was
    seen.

    Raises:
        NotLeaderOrFollowerError: The leader leads nothing, or the voter must adopt it first.
        FencedLeaderEpochError: The voter has seen a later epoch.
        InconsistentClusterError: The voter, under the leader's mark, has another log.
    """
    _check_leader(voter, leader)
    if not follows(voter, leader):
        raise NotLeaderOrFollowerError(
            f"voter {voter.key} has not adopted {leader.key} in epoch {leader.quorum_epoch}"
        )
    if is_ahead(voter, leader):
        return None
    end = voter.log.end_offset
    if common_end(voter.log, leader.log) != end:
        raise InconsistentClusterError(
            f"voter {voter.key} follows {leader.key} in epoch {leader.quorum_epoch}, and its log is"
            " no beginning of the leader's: one of both went back; remove the voter that was"
            " restored"
        )
    batches = leader.log.from_offset(end)
    chosen = tuple(_at_most(batches, end, records_max)) or batches[:1]
    return TableChange(appended=chosen) if chosen else None


def write_once(voter: VoterTable, leader: VoterTable) -> TableChange:
    """Return a commit that marks the leader once more, and so changes nothing: whether the root of
    a voter takes commits is seen before others wait for it.

    Raises:
        NotLeaderOrFollowerError: The voter must adopt the leader first.
    """
    _check_leader(voter, leader)
    if not follows(voter, leader):
        raise NotLeaderOrFollowerError(
            f"voter {voter.key} has not adopted {leader.key} in epoch {leader.quorum_epoch}"
        )
    return TableChange(leader=leader.key)


def is_ahead(voter: VoterTable, leader: VoterTable) -> bool:
    """Return whether a voter has more than its leader: the look at the leader is the older one. If
    the voter was looked at first, one of both went back, and is to be removed.
    """
    return follows(voter, leader) and voter.log.end_offset > leader.log.end_offset


def _at_most(
    batches: tuple[RaftBatch, ...], start: Offset, records_max: int | None
) -> Iterator[RaftBatch]:
    if records_max is None:
        return iter(batches)
    return takewhile(lambda each: each.end_offset - start <= records_max, batches)
