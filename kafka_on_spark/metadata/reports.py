"""What tasks saw of a partition's replicas: facts for ISR, high watermark and elections.

A report names the epochs of the image that was read *before* the tables were opened. If they
are not current any more at the decision, the report does not count.
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
)
from kafka_on_spark.metadata.partition import PartitionRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """One replica's log as a task saw it, compared with the leader's.

    Attributes:
        broker_id: The broker that has the replica.
        replica_uuid: The incarnation that was opened.
        directory_id: The disk that it was found on.
        fence: The leadership it has adopted; None: none, or not seen.
        log_end_offset: Its end.
        last_epoch: Epoch of its last record; None if it has no records.
        chain_digest: Of its log at its end; None: not seen.
        is_matched: The chain digest at its end is the leader's there, both computed.
        is_diverged: It is not, though both logs compute and have the register's digest at the high
            watermark, so it is unknown which log is wrong. Only set for a member of ISR or ELR.
        missing_since_ms: Append time of the first batch it lacks; None if it lacks none.
        missing_bytes: Size of the batches it lacks.
        compacted_below: It has finished the decision of compaction that goes so far.
        error_code: Why the replica could not be read, or NO_ERROR.
        error: The same in words.
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
        key: The partition.
        leader_epoch: Of the image that the round was planned on.
        partition_epoch: Of that image.
        known_end: The leader's log end as it was recorded in that image.
        leader: The leader's own replica.
        epoch_start_offset: Where the current leadership's records begin in the leader's log.
        uncommitted_since_ms: Append time of the leader's first batch at or above the image's
            high watermark; None if there is none.
        followers: The other replicas, one report each.
        now_ms: The time of the inspection.
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
        return any(border == committed for border in self.borders)

    def replica(self, broker_id: BrokerId) -> ReplicaReport | None:
        if broker_id == self.leader.broker_id:
            return self.leader
        return next((each for each in self.followers if each.broker_id == broker_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInspection:
    """One replica's log as a task saw it, for an election.

    Attributes:
        key: The partition.
        broker_id: The broker that has the replica.
        partition_epoch: Of the image that the inspection was planned on.
        high_watermark: The partition's in that image.
        log_start_offset: Of the log.
        log_end_offset: Of the log.
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
