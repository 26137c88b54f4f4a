"""What must hold of the metadata log's registers after every commit to it (docs/architecture.md).

As in invariants.py: one function an invariant, called with the commit that may break it.
"""

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import is_under_min_isr
from tests.simulation.checks.ledger import Ledger, require


def one_leader_per_epoch(
    ledger: Ledger, key: PartitionKey, partition: PartitionRegistration
) -> None:
    """I6: an epoch has one leader for ever."""
    leaders = ledger.log(key).leaders
    known = leaders.setdefault(partition.leader_epoch, partition.leader)
    require(
        known == partition.leader,
        "I6 one leader per epoch",
        f"{key.partition}, epoch {partition.leader_epoch}: {known} and {partition.leader}",
    )


def epochs_of_the_register(
    key: PartitionKey, before: PartitionRegistration, after: PartitionRegistration, changes: int
) -> None:
    """I7: partition epoch grows by 1 a change, leader epoch with each other leader, and neither
    falls."""
    increase = after.partition_epoch - before.partition_epoch
    require(
        increase == changes,
        "I7 epochs of the register",
        f"{key.partition}: partition epoch grew by {increase} in {changes} changes",
    )
    least = before.leader_epoch + (before.leader != after.leader)
    require(
        after.leader_epoch >= least,
        "I7 epochs of the register",
        f"{key.partition}: leader epoch {before.leader_epoch} became {after.leader_epoch},"
        f" leader {before.leader} {after.leader}",
    )


def high_watermark_never_falls(
    key: PartitionKey, before: PartitionRegistration, after: PartitionRegistration
) -> None:
    """I8: within an unclean generation the high watermark does not fall."""
    require(
        after.high_watermark >= before.high_watermark
        or after.unclean_generation > before.unclean_generation,
        "I8 high watermark never falls",
        f"{key.partition}: {before.high_watermark} became {after.high_watermark}",
    )


def high_watermark_bounds(
    ledger: Ledger,
    key: PartitionKey,
    before: PartitionRegistration,
    after: PartitionRegistration,
    image: MetadataImage,
) -> None:
    """I9: log start ≤ HW ≤ the leader's end; its epoch is the record's; it waits for min ISR.

    `image` is the one that the change was committed to.
    """
    name = "I9 high watermark bounds"
    require(
        after.log_start_offset <= after.high_watermark,
        name,
        f"{key.partition}: log start {after.log_start_offset} above {after.high_watermark}",
    )
    if after.high_watermark <= before.high_watermark or before.leader is None:
        return
    is_clean = after.unclean_generation == before.unclean_generation
    require(
        not (is_clean and is_under_min_isr(image, key.topic_id, before)),
        name,
        f"{key.partition}: moved to {after.high_watermark} with ISR {sorted(before.isr)}",
    )
    table = ledger.live_table(key, before, before.leader)
    if table is None:
        return
    require(
        table.state.log_end_offset >= after.high_watermark,
        name,
        f"{key.partition}: HW {after.high_watermark}, the leader ends at"
        f" {table.state.log_end_offset}",
    )
    epoch = table.state.epoch_at(after.high_watermark - 1)
    require(
        epoch == after.high_watermark_epoch,
        name,
        f"{key.partition}: epoch below HW {after.high_watermark_epoch}, in the log {epoch}",
    )


def retention(
    key: PartitionKey, before: PartitionRegistration, after: PartitionRegistration
) -> None:
    """I16: the log start does not fall, and stays at or below the high watermark."""
    require(
        before.log_start_offset <= after.log_start_offset <= after.high_watermark,
        "I16 retention",
        f"{key.partition}: log start {before.log_start_offset} became {after.log_start_offset}",
    )


def membership(key: PartitionKey, partition: PartitionRegistration, image: MetadataImage) -> None:
    """I17: ISR and ELR are replicas, the leader is in sync, all on brokers and roots of their own."""
    everyone = set(partition.replicas)
    roots = {image.brokers[each].root for each in everyone}
    holds = (
        partition.isr <= everyone
        and partition.elr <= everyone
        and not partition.elr & partition.isr
        and len(partition.isr) >= 1
        and (partition.leader is None or partition.leader in partition.isr)
        and everyone.issuperset(partition.adding_replicas)
        and everyone.issuperset(partition.removing_replicas)
        and len(roots) == len(everyone) == len(partition.replicas)
    )
    require(holds, "I17 membership", f"{key.partition}: {partition}")
