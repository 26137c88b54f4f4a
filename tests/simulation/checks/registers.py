"""What must hold of the metadata log's registers beside the tables (docs/architecture.md); what holds of
the log alone `fsck` says.

As in invariants.py: called with the commit that may break it.
"""

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.simulation.checks.ledger import Ledger, require


def one_register(
    ledger: Ledger, key: PartitionKey, partition: PartitionRegistration, image: MetadataImage
) -> None:
    """I17: somebody is in sync, and all replicas are on roots of their own."""
    roots = {image.brokers[each].root for each in partition.replicas}
    is_alone = len(roots) == len(partition.replicas) and partition.isr
    require(bool(is_alone), "I17", f"{key.partition}: {partition}")
    ledger.log(key).leaders.setdefault(partition.leader_epoch, partition.leader)


def high_watermark_bounds(
    ledger: Ledger, key: PartitionKey, before: PartitionRegistration, after: PartitionRegistration
) -> None:
    """I9: a high watermark that moves is within the leader's log, and its epoch is the record's."""
    if after.high_watermark <= before.high_watermark or before.leader is None:
        return
    table = ledger.live_table(key, before, before.leader)
    if table is None:
        return
    require(
        table.state.log_end_offset >= after.high_watermark,
        "I9",
        f"{key.partition}: HW {after.high_watermark}, the leader ends at"
        f" {table.state.log_end_offset}",
    )
    epoch = table.state.epoch_at(after.high_watermark - 1)
    require(
        epoch == after.high_watermark_epoch,
        "I9",
        f"{key.partition}: epoch below HW {after.high_watermark_epoch}, in the log {epoch}",
    )
