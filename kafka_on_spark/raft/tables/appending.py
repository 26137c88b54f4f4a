"""A writer's commit: a decision at the leader's end, and what must be done before it.

**The tail first**: a decision is only ever appended to a log that is committed to its end (Q9). So
a decision in a log proves that all before it is committed.
"""

from dataclasses import dataclass

from kafka_on_spark.errors import CommitConflictError, NotLeaderOrFollowerError
from kafka_on_spark.ids import Offset, QuorumEpoch
from kafka_on_spark.raft.log.raft_log import BatchKind, RaftBatch
from kafka_on_spark.raft.tables.voter_table import TableChange, VoterTable
from kafka_on_spark.raft.voter_set import VoterSet


@dataclass(frozen=True, slots=True)
class TailFirst:
    """Nothing may be decided yet: the log's tail is to be committed first, by whoever finds it.

    Attributes:
        start_offset: Up to where the log is known to be committed.
        end_offset: Up to where it must be.
    """

    start_offset: Offset
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDecision:
    """A decision to append.

    Attributes:
        base_offset: The end of the image on which it was decided.
        record_count: How many records it has.
        write_id: Its writer's name for it.
        voters: The set of voters that it puts into force, if it does.
    """

    base_offset: Offset
    record_count: int
    write_id: str
    voters: VoterSet | None = None


def append(
    leader: VoterTable, epoch: QuorumEpoch, committed_end: Offset, decision: NewDecision
) -> TableChange | TailFirst:
    """Return the commit that appends `decision` to the leader's log, or what is to be done first.

    `epoch`: the one in which `committed_end` was seen to be committed.

    Raises:
        NotLeaderOrFollowerError: The table leads another epoch by now, or none.
        CommitConflictError: The log has gone on since the decision was made: decide again.
    """
    if not leader.leads or leader.quorum_epoch != epoch:
        raise NotLeaderOrFollowerError(
            f"voter {leader.key} does not lead epoch {epoch}: look for the leader again"
        )
    end = leader.log.end_offset
    if committed_end < end:
        return TailFirst(committed_end, end)
    if end != decision.base_offset:
        raise CommitConflictError(
            "the metadata log has gone on", expected=decision.base_offset, found=end
        )
    batch = RaftBatch(
        end,
        Offset(end + decision.record_count),
        epoch,
        decision.write_id,
        BatchKind.DECISION,
        decision.voters,
    )
    return TableChange(appended=(batch,))
