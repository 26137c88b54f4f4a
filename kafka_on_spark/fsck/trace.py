"""The history of one replica once it was replayed: what comparing replicas needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_on_spark.base.ids import NO_CHAIN, BrokerId, ChainDigest, PartitionKey, ReplicaUuid
from kafka_on_spark.fsck.batches import LoggedBatch
from kafka_on_spark.fsck.findings import Finding
from kafka_on_spark.log.compaction import NO_PROGRESS, CompactionProgress


class ContentSum(NamedTuple):
    """What records amount to: how many they are, and the sum of their content digests."""

    record_count: int = 0
    digest: int = 0

    def plus(self, other: "ContentSum") -> "ContentSum":
        """Return the sum of both; digests are added modulo 2^64, as a signed integer."""
        digest = (self.digest + other.digest + 2**63) % 2**64 - 2**63
        return ContentSum(self.record_count + other.record_count, digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSegment:
    """What was found in a segment's file.

    Attributes:
        flaw: What is wrong with it, in a sentence; None: nothing, as far as it tells by itself.
        is_missing: That it is not there.
        sums: Of its records between each two borders that were asked for; empty if it has a flaw.
        ends: The borders that a merged segment keeps: offsets, and the chain digests there.
    """

    flaw: str | None = None
    is_missing: bool = False
    sums: tuple[ContentSum, ...] = ()
    ends: tuple[tuple[int, ChainDigest], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLifetime:
    """From when to when a batch was in one replica's log.

    Attributes:
        batch: The batch.
        added_version: The version that added it; for the first batches of a history that was
            cleaned up, the version that it begins at.
        removed_version: The version that removed it; None: it is there.
        is_own: It was appended here as by a leader, not fetched from one.
    """

    batch: LoggedBatch
    added_version: int
    removed_version: int | None
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSpan:
    """The versions during which a replica was fenced at one leadership.

    Attributes:
        leader_epoch: The fence.
        first_version: The version that adopted it (or that the history begins at).
        last_version: The last before the next fence.
        end_before: Log end before it was adopted; None: not known.
        end_adopted: Log end that adopting left.
        start_offset: Log start in the last version.
        end_offset: Log end in the last version: the largest of them, since under one
            leadership nothing is cut.
    """

    leader_epoch: int
    first_version: int
    last_version: int
    end_before: int | None
    end_adopted: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTrace:
    """One replica's history.

    Attributes:
        key: The partition.
        broker_id: The replica's broker.
        replica_uuid: The replica's incarnation.
        is_read: Its log could be read to the end, so that the values below are of its newest state.
        is_chained: All chain digests that it ever had were those computed.
        first_version: Where the history begins.
        last_version: Where it ends.
        log_start_offset: In the last version.
        log_end_offset: In the last version.
        chain_before: Chain digest before its first batch, in the last version.
        fence: In the last version; None: none yet.
        forgotten_producers: Producers whose headers went and that its producer-state file lacks,
            each with the newest epoch in those headers.
        lifetimes: Every batch that it ever had, in the order in which they came. One that is merged
            with others is still there.
        merged: Merged segments that it had and whose batches its history does not tell: it begins
            later, or they were fetched, or compaction made them.
        borders: Ends of batches in the last version, and the chain digests there.
        has_merged_files: Merged segments are among its files.
        compaction: How far it is compacted, in the last version.
        contents: What its files hold between each two borders of the audit's order; None: they were
            not read, or are damaged.
        spans: Its fences, oldest first.
        findings: What is wrong with it alone.
        read_files: Segments read.
        read_bytes: Their bytes.
    """

    key: PartitionKey
    broker_id: BrokerId
    replica_uuid: ReplicaUuid
    is_read: bool
    is_chained: bool = True
    first_version: int = 0
    last_version: int = -1
    log_start_offset: int = 0
    log_end_offset: int = 0
    chain_before: ChainDigest = NO_CHAIN
    fence: int | None = None
    forgotten_producers: tuple[tuple[str, int], ...] = ()
    lifetimes: tuple[BatchLifetime, ...] = ()
    merged: tuple[LoggedBatch, ...] = ()
    borders: Mapping[int, ChainDigest] = field(default_factory=dict)
    has_merged_files: bool = False
    compaction: CompactionProgress = NO_PROGRESS
    contents: tuple[ContentSum, ...] | None = None
    spans: tuple[EpochSpan, ...] = ()
    findings: tuple[Finding, ...] = ()
    read_files: int = 0
    read_bytes: int = 0

    @property
    def batches(self) -> list[LoggedBatch]:
        return [lifetime.batch for lifetime in self.lifetimes if lifetime.removed_version is None]

    def chain_at(self, offset: int) -> ChainDigest | None:
        """Return the chain digest that the last version has at `offset`; None: no batch begins
        or ends there."""
        return self.borders.get(offset)

    def is_merged_over(self, batch: LoggedBatch) -> bool:
        """Return whether a merged segment may have held `batch`: nothing tells here what it was."""
        return any(
            each.base_offset < batch.end_offset and batch.base_offset < each.end_offset
            for each in self.merged
        )

    def span_of(self, leader_epoch: int) -> EpochSpan | None:
        return next((span for span in self.spans if span.leader_epoch == leader_epoch), None)

    def batches_in(self, span: EpochSpan) -> list[LoggedBatch]:
        """Return every batch that was in the log during `span`, after what adopting cut."""
        lifetimes = (
            lifetime
            for lifetime in self.lifetimes
            if lifetime.added_version <= span.last_version
            and (lifetime.removed_version is None or lifetime.removed_version > span.first_version)
        )
        return sorted(
            (lifetime.batch for lifetime in lifetimes), key=lambda batch: batch.base_offset
        )
