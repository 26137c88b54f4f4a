"""What must hold of the metadata log's registers after every commit to it (docs/architecture.md): by
the rules of `fsck`, and by what only the simulation knows, the tables at that moment.

As in invariants.py: called with the commit that may break it.
"""

from collections.abc import Iterable

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.fsck.registers import Flaw, isr_flaws, log_start_flaws, state_flaws, step_flaws
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from tests.simulation.checks.ledger import Ledger, require
from tests.simulation.world.scheduler import Violation

NAMES = {
    "I6": "I6 one leader per epoch",
    "I7": "I7 epochs of the register",
    "I8": "I8 high watermark never falls",
    "I9": "I9 high watermark bounds",
    "I16": "I16 retention",
    "I17": "I17 membership",
}


def hold(where: object, flaws: Iterable[Flaw]) -> None:
    """Raise a violation for the first thing that is wrong, if anything is."""
    for invariant, sentence in flaws:
        raise Violation(NAMES[invariant], f"{where}: {sentence}")


def one_register(
    ledger: Ledger, key: PartitionKey, partition: PartitionRegistration, image: MetadataImage
) -> None:
    """I6, I9, I16, I17: what holds of a register by itself; all on roots of their own."""
    hold(key.partition, state_flaws(partition))
    roots = {image.brokers[each].root for each in partition.replicas}
    is_alone = len(roots) == len(partition.replicas) and partition.isr
    require(bool(is_alone), NAMES["I17"], f"{key.partition}: {partition}")
    known = ledger.log(key).leaders.setdefault(partition.leader_epoch, partition.leader)
    told = f"{key.partition}, epoch {partition.leader_epoch}: {known} and {partition.leader}"
    require(known == partition.leader, NAMES["I6"], told)


def next_register(
    key: PartitionKey,
    before: PartitionRegistration,
    after: PartitionRegistration,
    changes: int,
    image: MetadataImage,
) -> None:
    """I6 to I9, I16: what holds of a commit of so many changes. `image`: what it was committed to."""
    increase = after.partition_epoch - before.partition_epoch
    told = f"{key.partition}: partition epoch grew by {increase} in {changes} changes"
    require(increase == changes, NAMES["I7"], told)
    hold(key.partition, step_flaws(before, after))
    hold(key.partition, log_start_flaws(before, after.log_start_offset, None))
    is_clean = after.unclean_generation == before.unclean_generation
    if after.high_watermark > before.high_watermark and before.leader is not None and is_clean:
        minimum = image.settings(key.topic_id).integer("min.insync.replicas")
        hold(key.partition, isr_flaws(before, after.high_watermark, minimum))


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
        NAMES["I9"],
        f"{key.partition}: HW {after.high_watermark}, the leader ends at"
        f" {table.state.log_end_offset}",
    )
    epoch = table.state.epoch_at(after.high_watermark - 1)
    require(
        epoch == after.high_watermark_epoch,
        NAMES["I9"],
        f"{key.partition}: epoch below HW {after.high_watermark_epoch}, in the log {epoch}",
    )
