"""What became of a batch whose commit's outcome is unknown.

Until it is known, who decided it decides nothing else that it would contradict.
"""

from enum import Enum

from kafka_on_spark.ids import Offset
from kafka_on_spark.raft.log.lookups import find_write
from kafka_on_spark.raft.log.raft_log import RaftBatch, RaftLog


class Outcome(Enum):
    """What is known of a write."""

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
