"""What is done if two logs diverge above the high watermark, and neither is proved right.

One of them was rolled back and went on, or was changed. Under one leader epoch no log is cut. So
the leader epoch is raised, with the same leader: it proves its log, or another replica leads. The
follower adopts the epoch and cuts what it does not share, which was never committed.
"""

from dataclasses import replace

from kafka_on_spark.controller.partitions.election import eligible_replicas
from kafka_on_spark.controller.partitions.min_isr import min_isr
from kafka_on_spark.controller.partitions.partition_change import change_record
from kafka_on_spark.controller.partitions.reports import PartitionReport, ReplicaReport
from kafka_on_spark.ids import KEEP
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord


def raise_epoch(image: MetadataImage, report: PartitionReport) -> PartitionChangeRecord | None:
    """Decide a new epoch of the same leader if the log of a member of ISR or ELR diverges from
    the leader's.

    The member leaves ISR or ELR if the minimum is left without it, and comes back when it agrees:
    so a replica costs a partition at most one epoch each time it joins. None if no log diverges, or
    if the partition has changed since the inspection.
    """
    partition = image.partition(report.key)
    if (
        partition is None
        or partition.partition_epoch != report.partition_epoch
        or partition.leader_epoch != report.leader_epoch
        or partition.leader != report.leader.broker_id
        or not report.leader.counts_in(report.leader_epoch)
    ):
        return None
    diverged = _diverged_members(partition, report)
    if not diverged:
        return None
    change = _without_diverged(partition, diverged, min_isr(image, report.key.topic_id, partition))
    cause = "; ".join(
        f"broker {seen.broker_id}: its log diverges from broker {partition.leader}'s above the high"
        f" watermark {partition.high_watermark} in epoch {partition.leader_epoch}, and it is"
        " not known which is right"
        for seen in diverged
    )
    return change_record(image, report.key, partition, change, cause)


def _diverged_members(
    partition: PartitionRegistration, report: PartitionReport
) -> list[ReplicaReport]:
    return [
        seen
        for seen in report.followers
        if seen.is_diverged
        and seen.broker_id in partition.isr | partition.elr
        and partition.uuid_of(seen.broker_id) == seen.replica_uuid
    ]


def _without_diverged(
    partition: PartitionRegistration, diverged: list[ReplicaReport], minimum: int
) -> PartitionChange:
    """Return the new epoch without those of `diverged` that the minimum can do without."""
    isr, elr = partition.isr, partition.elr
    for seen in diverged:
        if seen.broker_id in isr and len(isr) > minimum:
            isr = isr - {seen.broker_id}
        elif seen.broker_id in elr and len(isr | elr) > minimum:
            elr = elr - {seen.broker_id}
    elr = eligible_replicas(replace(partition, elr=elr), isr, minimum)
    return PartitionChange(
        leader=partition.leader,
        isr=isr if isr != partition.isr else KEEP,
        elr=elr if elr != partition.elr else KEEP,
    )
