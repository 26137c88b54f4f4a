"""Where a partition's log starts: delete-records, and retention.

The log start is decided here, in the metadata log, at most the high watermark; replicas apply it
afterwards and never run ahead. So no replica ever starts above what another may lack.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kafka_on_spark.base.errors import (
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionEpoch, PartitionKey
from kafka_on_spark.log.retention import Retained, RetentionLimits, limits_of
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import HighWatermarkRecord, Record


def delete_records(
    image: MetadataImage, key: PartitionKey, before_offset: Offset | None
) -> ControllerResult[Offset]:
    """Decide that records below `before_offset` are deleted; None: all that is committed. Answer:
    the log start after it. Source: Partition.deleteRecordsOnLeader (KIP-107)."""
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError("there is no such partition to delete records of")
    if "delete" not in image.settings(key.topic_id).policies:
        raise PolicyViolationError(
            f"records of {image.name_of(key)} can't be deleted by offset: its cleanup.policy is"
            f" {image.settings(key.topic_id).text('cleanup.policy')!r}, and 'delete' is needed"
        )
    wanted = partition.high_watermark if before_offset is None else before_offset
    return raise_log_start(image, key, wanted, f"delete-records: everything below {wanted}")


def delete_records_of_all(
    image: MetadataImage, offsets: Mapping[PartitionKey, Offset | None]
) -> ControllerResult[dict[PartitionKey, Offset]]:
    """Decide deletions in several partitions, all or none. Answer: their log starts afterwards."""
    results = {key: delete_records(image, key, offset) for key, offset in offsets.items()}
    records = [record for result in results.values() for record in result.records]
    return ControllerResult(records, {key: each.response for key, each in results.items()})


_YEAR_10000_MS: Final = 253_402_300_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """What a task saw in a leader's log that retention is decided on, with the epochs, the log
    start and the limits of the image by which it was ordered. `now_ms`: the time by which batches
    are too old, the earliest of three clocks."""

    key: PartitionKey
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    log_start_offset: Offset
    limits: RetentionLimits
    now_ms: int
    found: Retained

    @property
    def deletes(self) -> bool:
        return self.found.log_start_offset > self.log_start_offset


def retain(
    image: MetadataImage, reports: Sequence[RetentionReport]
) -> ControllerResult[dict[PartitionKey, Offset]]:
    """Decide what retention deletes in all partitions, in one commit. Answer: the new log starts.

    A report that is not of the partition as it is now leads to nothing: another leader may have
    another log, and other settings other limits. It is inspected again.
    """
    records: list[Record] = []
    starts = {}
    for report in reports:
        partition = image.partition(report.key)
        if partition is None or not is_of_now(image, report, partition):
            continue
        offset = report.found.log_start_offset
        if is_raised_within(partition, offset):
            raised = raise_log_start(
                image, report.key, offset, cause_of(report, partition.log_start_offset)
            )
            records.extend(raised.records)
            starts[report.key] = offset
    return ControllerResult(records, starts)


def is_raised_within(partition: PartitionRegistration, offset: Offset) -> bool:
    return partition.log_start_offset < offset <= partition.high_watermark


def is_of_now(
    image: MetadataImage, report: RetentionReport, partition: PartitionRegistration
) -> bool:
    return (
        partition.leader_epoch == report.leader_epoch
        and partition.partition_epoch == report.partition_epoch
        and limits_of(image.settings(report.key.topic_id)) == report.limits
    )


def cause_of(report: RetentionReport, start_offset: Offset) -> str:
    found, limits = report.found, report.limits
    reasons = []
    if found.newest_ms is not None and found.expired_to > start_offset:
        reasons.append(
            f"those below {found.expired_to} are older than retention.ms={limits.retention_ms}, the"
            f" newest of them {report.now_ms - found.newest_ms} ms"
        )
    if found.log_start_offset > max(found.expired_to, start_offset):
        reasons.append(
            f"those from {max(found.expired_to, start_offset)} on are beyond"
            f" retention.bytes={limits.retention_bytes}, and {found.kept_bytes} bytes are left"
        )
    if found.expires_at_ms is not None and found.expires_at_ms < _YEAR_10000_MS:
        next_at = datetime.fromtimestamp(found.expires_at_ms / 1000, UTC)
        reasons.append(f"the next ones are due at {next_at:%Y-%m-%d %H:%M:%S} UTC")
    count = found.log_start_offset - start_offset
    return (
        f"retention deletes {count} records below {found.log_start_offset},"
        f" {found.removed_bytes} bytes: {'; '.join(reasons)}"
    )


def raise_log_start(
    image: MetadataImage, key: PartitionKey, offset: Offset, cause: str
) -> ControllerResult[Offset]:
    """Decide that the log starts at `offset`, or where it does if that is above."""
    partition = image.topics[key.topic_id].partitions[key.partition]
    if not 0 <= offset <= partition.high_watermark:
        raise OffsetOutOfRangeError(
            f"the log of {image.name_of(key)} can't start at {offset}: give an offset from 0 to"
            f" its high watermark {partition.high_watermark}"
        )
    if offset <= partition.log_start_offset:
        return ControllerResult([], partition.log_start_offset)
    record = HighWatermarkRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        high_watermark=None,
        high_watermark_epoch=None,
        high_watermark_chain=None,
        log_end_offset=partition.log_end_offset,
        log_start_offset=offset,
        cause=cause,
    )
    return ControllerResult([record], offset)
