"""What must hold of a commit that puts one file in the place of others (I25).

A replica does so by itself, so nothing may follow from it for anybody: not for its records, nor for
what is asked of its log by offset, epoch and chain digest.
"""

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.fsck.log_rules import replacement_flaws
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.simulation.checks.ledger import Ledger, hold, require
from tests.simulation.world.disks import rows_of

SAME_RECORDS = "I25 the same records"
COMMITTED = "I25 merged is committed"


def replaced_is_the_same(
    ledger: Ledger, key: PartitionKey, before: ReplicaState, change: LogChange
) -> None:
    """I25: a merged segment has the records of what it replaces, as `fsck` asks, and all of it is
    committed."""
    merged = change.merged
    if merged is None:
        return
    removed = before.removed_by(change)
    told = f"{key.partition}: {removed} became {merged}"
    require(bool(removed), "I25", told)
    hold(told, replacement_flaws(merged, removed, may_lack=change.operation == "compact"))
    if change.operation == "merge":
        rows = tuple(row for each in removed for row in rows_of(each))
        require(rows == rows_of(merged), SAME_RECORDS, told)
    partition = ledger.image.partition(key)
    if partition is not None and _is_bound(partition, change):
        committed = ledger.log(key).committed[merged.base_offset : merged.end_offset]
        is_whole = len(committed) == merged.end_offset - merged.base_offset
        known = dict(enumerate(committed, merged.base_offset))
        own = [known.get(at) == (value, merged.leader_epoch) for at, value in rows_of(merged)]
        require(is_whole and all(own), COMMITTED, f"{told}; committed is {committed}")


def _is_bound(partition: PartitionRegistration, change: LogChange) -> bool:
    """Return whether what was committed when the merge was planned is so now."""
    return partition.unclean_generation == 0 or change.leader_epoch == partition.leader_epoch
