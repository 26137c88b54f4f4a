"""Whether a voter's table goes on from what was seen of it, or went back.

A process that follows the table commit by commit need not ask. One that had to open it anew must:
another table, or a copy from before, may lie there now, at the same version or above.
"""

from kafka_on_spark.raft.log.lookups import has_write
from kafka_on_spark.raft.tables.voter_table import VoterTable


def goes_on_from(seen: VoterTable, found: VoterTable) -> bool:
    """Return whether `found` is a later version of the same table as `seen`.

    Its epoch never falls, nor does a vote or a mark. What the log proved committed stays; as long
    as the epoch and its leader do, so does the rest (Q4).
    """
    if found.version < seen.version or found.quorum_epoch < seen.quorum_epoch:
        return False
    if found.version == seen.version and found != seen:
        return False
    is_same_term = (found.quorum_epoch, found.leader) == (seen.quorum_epoch, seen.leader)
    if found.quorum_epoch == seen.quorum_epoch and seen.leader not in (None, found.leader):
        return False
    kept_end = seen.log.end_offset if is_same_term else seen.log.proved_end
    last = seen.log.cut_to(kept_end).batches[-1:]
    return all(has_write(found.log, batch) for batch in last)
