"""What a round's reports lead to: high watermarks, ISRs and raised epochs, decided together.

One commit has the decisions of all partitions. Each is independent: a report that is not current
any more leads to nothing, and does not affect the others.
"""

from collections.abc import Sequence
from dataclasses import replace

from kafka_on_spark.base.errors import NO_ERROR, KafkaStorageError
from kafka_on_spark.base.ids import KEEP, ReplicaUuid
from kafka_on_spark.controller.election import eligible_replicas
from kafka_on_spark.controller.isr import alter_isr
from kafka_on_spark.controller.lost_replica_restore import release_former
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.metadata.high_watermark import advance_high_watermark, min_isr
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord, Record
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaReport
from kafka_on_spark.metadata.result import ControllerResult


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


def without_suspects(report: PartitionReport, suspects: frozenset[ReplicaUuid]) -> PartitionReport:
    """Return the report in which no suspect counts, whatever was seen of it."""

    def counted(seen: ReplicaReport) -> ReplicaReport:
        if seen.replica_uuid not in suspects or seen.error_code != NO_ERROR:
            return seen
        error = "it was found bad, and is to be inspected again"
        return replace(seen, error_code=KafkaStorageError.code, error=error)

    if not suspects:
        return report
    followers = tuple(map(counted, report.followers))
    return replace(report, leader=counted(report.leader), followers=followers)


def conclude(image: MetadataImage, reports: Sequence[PartitionReport]) -> ControllerResult[int]:
    """Decide what `reports` lead to. Answer: how many ISRs change.

    A partition's high watermark comes before its change, after which the report is not current. A
    replica that joins the ISR has all that is committed afterwards (I1).
    """
    records: list[Record] = []
    for seen in reports:
        report = without_suspects(seen, image.suspects)
        watermark = advance_high_watermark(image, report)
        if watermark is not None:
            records.append(watermark)
        raised = None if watermark is None else watermark.high_watermark
        change = raise_epoch(image, report) or alter_isr(image, report, high_watermark=raised)
        change = change or release_former(image, report)
        if change is not None:
            records.append(change)
    changes = sum(isinstance(record, PartitionChangeRecord) for record in records)
    return ControllerResult(records, changes)
