"""What tasks saw of replicas; the high watermark that follows from it, and min.insync.replicas.

A report names the epochs of the image that was read *before* the tables were opened. If they
are not current any more at the decision, the report does not count.

The high watermark is the smallest log end in the ISR. It stands beside leader and ISR in the
metadata log and is the true one, so a replica that has the record below it has every committed one.
While fewer replicas are in sync than min.insync.replicas asks for, it stands still (I9) and
acks=all is refused. The number of a partition's replicas bounds that minimum.
"""

from dataclasses import dataclass

from kafka_on_spark.base.errors import NO_ERROR
from kafka_on_spark.base.ids import (
    BrokerId,
    ChainDigest,
    DirectoryId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionKey,
    ReplicaUuid,
    TopicId,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import HighWatermarkRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """One replica's log as a task saw it, compared with the leader's.

    Attributes:
        fence: The leadership it has adopted; None: none, or not seen.
        last_epoch: Epoch of its last record; None if it has no records.
        chain_digest: Of its log at its end; None: not seen.
        is_matched: The chain digest at its end is the leader's there, both computed.
        is_diverged: It is not, though both logs compute and have the register's digest at the high
            watermark, so it is unknown which log is wrong. Only set for a member of ISR or ELR.
        missing_since_ms: Append time of the first batch it lacks; None if it lacks none.
        missing_bytes: Size of the batches it lacks.
        compacted_below: It has finished the decision of compaction that goes so far.
        error_code: Why the replica could not be read, or NO_ERROR.
        is_bad: The replica is lost, corrupt, or shorter than the high watermark by this inspection:
            a finding, which changes nothing.
        bad_file: The file that this is about; None: the log.
        is_bad_twice: A second inspection by the same process found the same again: a verdict.
    """

    broker_id: BrokerId
    replica_uuid: ReplicaUuid
    directory_id: DirectoryId | None = None
    fence: LeaderEpoch | None = None
    log_end_offset: Offset = Offset(0)
    last_epoch: LeaderEpoch | None = None
    chain_digest: ChainDigest | None = None
    is_matched: bool = False
    is_diverged: bool = False
    missing_since_ms: int | None = None
    missing_bytes: int = 0
    compacted_below: Offset = Offset(0)
    error_code: int = NO_ERROR
    error: str | None = None
    is_bad: bool = False
    bad_file: str | None = None
    is_bad_twice: bool = False

    def counts_in(self, leader_epoch: LeaderEpoch) -> bool:
        return self.error_code == NO_ERROR and self.fence == leader_epoch and self.is_matched


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One round's inspection of a partition.

    Attributes:
        leader_epoch, partition_epoch: Of the image that the round was planned on.
        known_end: The leader's log end as it was recorded in that image.
        epoch_start_offset: Where the current leadership's records begin in the leader's log.
        uncommitted_since_ms: Append time of the leader's first batch at or above the image's
            high watermark; None if there is none.
        borders: Offset and chain digest of the image's high watermark, and of the ends of batches
            above it, in the leader's log. Of many, the newest.
    """

    key: PartitionKey
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    known_end: Offset
    leader: ReplicaReport
    epoch_start_offset: Offset
    uncommitted_since_ms: int | None
    followers: tuple[ReplicaReport, ...]
    now_ms: int
    borders: tuple[tuple[Offset, ChainDigest], ...]

    def continues(self, partition: PartitionRegistration) -> bool:
        """Return whether the leader's log, as it was seen, has all that `partition` has committed.

        The register's high watermark may have moved since the inspection. If the log has another
        chain digest there, or none was seen, the inspection does not count: the next one, planned
        on the newer image, shows which side is wrong.
        """
        committed = (partition.high_watermark, partition.high_watermark_chain)
        return committed in self.borders

    def replica(self, broker_id: BrokerId) -> ReplicaReport | None:
        if broker_id == self.leader.broker_id:
            return self.leader
        return next((each for each in self.followers if each.broker_id == broker_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInspection:
    """One replica's log as a task saw it, for an election.

    Attributes:
        partition_epoch, high_watermark: Of the image that the inspection was planned on.
        last_epoch: Of its last record; None without any.
        epoch_below_high_watermark: Of the record below that high watermark; None: not here.
        chain_digest: Of the log at its end, computed.
        chain_at_high_watermark: The same at that high watermark; None: no batch ends there.
        compacted_below: Records below it may be gone, for later ones below it.
        fence: The leadership it has adopted; None: none, or not seen.
    """

    key: PartitionKey
    broker_id: BrokerId
    partition_epoch: PartitionEpoch
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    last_epoch: LeaderEpoch | None
    epoch_below_high_watermark: LeaderEpoch | None
    chain_digest: ChainDigest
    chain_at_high_watermark: ChainDigest | None
    compacted_below: Offset = Offset(0)
    fence: LeaderEpoch | None = None


MIN_ISR = "min.insync.replicas"


def min_isr_setting(image: MetadataImage, topic_id: TopicId) -> int:
    return image.settings(topic_id).integer(MIN_ISR)


def min_isr(image: MetadataImage, topic_id: TopicId, partition: PartitionRegistration) -> int:
    """Return the effective minimum: the setting or the number of replicas, if that is less."""
    return min(image.settings(topic_id).integer(MIN_ISR), len(partition.replicas))


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
    if partition is None or not report.leader.counts_in(report.leader_epoch):
        return None
    if report.leader_epoch != partition.leader_epoch:
        return None
    if report.partition_epoch != partition.partition_epoch:
        return None
    end = None
    if not is_under_min_isr(image, report.key.topic_id, partition) and report.continues(partition):
        end = _smallest_end(partition, report)
    if end is not None and end.log_end_offset <= partition.high_watermark:
        end = None
    log_end_offset = report.leader.log_end_offset
    if report.known_end != partition.log_end_offset:
        # Planned before others have appended and recorded that. Lowered, the recorded end would
        # leave their records without a replica in sync, and unread, until somebody appends more.
        log_end_offset = max(log_end_offset, partition.log_end_offset)
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


def _smallest_end(
    partition: PartitionRegistration, report: PartitionReport
) -> ReplicaReport | None:
    """Return the member of the ISR whose log ends first; None if any of them does not count."""
    smallest = None
    for broker_id in partition.isr:
        member = report.replica(broker_id)
        if member is None or not member.counts_in(report.leader_epoch):
            return None
        if smallest is None or member.log_end_offset < smallest.log_end_offset:
            smallest = member
    return smallest
