"""The high watermark: how far a partition is committed.

It is the smallest log end in the ISR. It stands beside leader and ISR in the
metadata log and is the true one, so a replica that has the record below it has every committed one.
While fewer replicas are in sync than min.insync.replicas asks for, it stands still (I9) and
acks=all is refused. The number of a partition's replicas bounds that minimum.
"""

from kafka_on_spark.base.ids import ChainDigest, LeaderEpoch, Offset, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import HighWatermarkRecord
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaReport

MIN_ISR = "min.insync.replicas"


def min_isr_setting(image: MetadataImage, topic_id: TopicId) -> int:
    """Return the setting of a topic, whatever number of replicas its partitions have."""
    return image.settings(topic_id).integer(MIN_ISR)


def min_isr(image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration) -> int:
    """Return the effective minimum: the setting or the number of replicas, if that is less."""
    return min(min_isr_setting(image, topic_id), len(partition.replicas))


def is_under_min_isr(
    image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration
) -> bool:
    return len(partition.isr) < min_isr(image, topic_id, partition)


def is_at_min_isr(
    image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration
) -> bool:
    """Return whether too few would be left for acks=all if one more member left the ISR."""
    return len(partition.isr) == min_isr(image, topic_id, partition)


def too_few_in_sync(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration
) -> str:
    """Return the sentence that refuses an append with acks=all to a partition."""
    return (
        f"partition {image.name_of(key)} has {len(partition.isr)} replicas in sync, and"
        f" acks=all needs {min_isr(image, key.topic_id, partition)}"
        f" ({MIN_ISR}): bring brokers back, or append with acks=1"
    )


def advance_high_watermark(
    image: MetadataImage, report: PartitionReport
) -> HighWatermarkRecord | None:
    """Decide a partition's high watermark by a report; None if nothing changes.

    It moves only while the ISR has its minimum (I9), never down (I8), and not past a member
    that has not adopted the leadership: its log end says nothing about this log. If it can't move,
    the leader's log end is recorded, so that replication knows of the work. A late report does not
    lower that end. A report of a log with another chain digest at the committed end moves nothing.
    """
    partition = image.partition(report.key)
    if partition is None or not _is_current(report, partition):
        return None
    end = None
    if not is_under_min_isr(image, report.key.topic_id, partition) and report.continues(partition):
        end = _smallest_end(partition, report)
    if end is not None and end.log_end_offset <= partition.high_watermark:
        end = None
    log_end_offset = _leaders_end(partition, report)
    if end is None and log_end_offset == partition.log_end_offset:
        return None
    return HighWatermarkRecord(
        topic_id=report.key.topic_id,
        partition=report.key.partition,
        leader_epoch=report.leader_epoch,
        partition_epoch=report.partition_epoch,
        high_watermark=end.log_end_offset if end else None,
        high_watermark_epoch=end.last_epoch if end else None,
        high_watermark_chain=end.chain_digest if end else None,
        log_end_offset=log_end_offset,
    )


def _leaders_end(partition: PartitionRegistration, report: PartitionReport) -> Offset:
    """Return the leader's log end to record.

    Only a look that was planned on the recorded end may lower it. To any other one the log was
    shorter because it came before what others have appended and recorded since: lowered, that would
    stay without a replica in sync, and unread, until somebody appends more.
    """
    seen, recorded = report.leader.log_end_offset, partition.log_end_offset
    is_late = seen < recorded and report.known_end != recorded
    return recorded if is_late else seen


def _is_current(report: PartitionReport, partition: PartitionRegistration) -> bool:
    return (
        report.leader_epoch == partition.leader_epoch
        and report.partition_epoch == partition.partition_epoch
        and report.leader.counts_in(report.leader_epoch)
    )


def _smallest_end(
    partition: PartitionRegistration, report: PartitionReport
) -> ReplicaReport | None:
    members = [report.replica(broker_id) for broker_id in partition.isr]
    counted = [
        member for member in members if member is not None and member.counts_in(report.leader_epoch)
    ]
    if len(counted) < len(partition.isr):
        return None
    return min(counted, key=lambda member: member.log_end_offset)


def has_all_committed(
    partition: PartitionRegistration,
    *,
    log_start_offset: Offset,
    log_end_offset: Offset,
    epoch_below_high_watermark: LeaderEpoch | None,
    chain_at_high_watermark: ChainDigest | None,
) -> bool:
    """Return whether a log proves to hold every committed record.

    Since the register's high watermark is the true one, the chain digest at it is proof for all
    records before it, if the log's chain computes. The digest is also checked if none of these
    records is kept: another log would answer retries of appends that were never committed.
    """
    if log_start_offset > partition.log_start_offset or log_end_offset < partition.high_watermark:
        return False
    if chain_at_high_watermark != partition.high_watermark_chain:
        return False
    if log_start_offset >= partition.high_watermark:
        return True
    return epoch_below_high_watermark == partition.high_watermark_epoch
