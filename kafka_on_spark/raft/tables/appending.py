"""A writer's commit: a decision at the leader's end, and what must be done before it.

**The tail first**: a decision is only ever appended to a log that is committed to its end (Q9). So
a decision in a log proves that all before it is committed.
"""

from kafka_on_spark.errors import CommitConflictError, NotLeaderOrFollowerError
from kafka_on_spark.ids import Offset, QuorumEpoch
from kafka_on_spark.raft.log.raft_log import BatchKind, RaftBatch
from kafka_on_spark.raft.tables.voter_table import TableChange, VoterTable
from kafka_on_spark.raft.voter_set import VoterSet


def append(
    leader: VoterTable,
    epoch: QuorumEpoch,
    committed_end: Offset,
    *,
    base_offset: Offset,
    record_count: int,
    write_id: str,
    voters: VoterSet | None = None,
) -> TableChange:
    """Return the commit that appends a decision to the leader's log.

    `epoch`: the one in which `committed_end` was seen to be committed. `base_offset`: the end of
    the image on which it was decided. `write_id`: its writer's name for it. `voters`: the set that
    it puts into force, if it does.

    Raises:
        NotLeaderOrFollowerError: The table leads another epoch by now, or none.
        CommitConflictError: The log has gone on since the decision was made: decide again. Or its
            tail is not committed as yet: whoever finds it ends it first.
    """
    if not leader.leads or leader.quorum_epoch != epoch:
        raise NotLeaderOrFollowerError(
            f"voter {leader.key} does not lead epoch {epoch}: look for the leader again"
        )
    end = leader.log.end_offset
    if committed_end < end or end != base_offset:
        raise CommitConflictError("the metadata log has gone on", expected=base_offset, found=end)
    batch = RaftBatch(end, Offset(end + record_count), epoch, write_id, BatchKind.DECISION, voters)
    return TableChange(appended=(batch,))
