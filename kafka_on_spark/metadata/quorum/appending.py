"""A writer's commit: a decision at the leader's end, and what became of it.

**The tail first**: a decision is only ever appended to a log that is committed to its end (Q9). So
a decision in a log proves that all before it is committed.
"""

from enum import Enum

from kafka_on_spark.base.errors import CommitConflictError, NotLeaderOrFollowerError
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.lookups import find_write
from kafka_on_spark.metadata.quorum.raft_log import BatchKind, RaftBatch, RaftLog
from kafka_on_spark.metadata.quorum.voter_set import VoterSet
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable


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


class Outcome(Enum):
    """What is known of a write. Until it is, who decided it decides nothing else that it would
    contradict."""

    COMMITTED = "committed"
    LOST = "lost"
    UNKNOWN = "unknown"

    UNTOLD = "untold"
    """The table has merged what stands there, of the same epoch: no look tells any more."""


def outcome_of(log: RaftLog, committed_end: Offset, write: RaftBatch) -> Outcome:
    """Return what became of a write, by a leader's log that is known to be committed up to
    `committed_end`.

    It is committed where it is found below that. It never will be where a batch of a later epoch is
    committed and it is not below: each later leader has that batch, so none has the write. That
    nobody has it now proves nothing: the put may still land, and its epoch's leader be the next.
    """
    found = find_write(log, write.write_id, write.base_offset)
    if found is not None:
        is_committed = found.end_offset <= committed_end
        return Outcome.COMMITTED if is_committed else Outcome.UNKNOWN
    run = log.run_at(write.base_offset)
    if run is not None:
        return Outcome.UNTOLD if run.epoch == write.epoch else Outcome.LOST
    later = log.batch_before(committed_end)
    if later is not None and later.epoch > write.epoch:
        return Outcome.LOST
    return Outcome.UNKNOWN
