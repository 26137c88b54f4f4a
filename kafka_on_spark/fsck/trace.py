"""I10, I15, I25: one replica's history, as the headers in its table's log tell it: its batches,
from when to when each was there, its fences. What comparing replicas needs.

Apart from `log.batch`, whose values assert what is checked here: a damaged header is a finding, not
an error.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from typing import Final, NamedTuple

from kafka_on_spark.base.ids import (
    BrokerId,
    ChainDigest,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ReplicaUuid,
    TopicId,
)
from kafka_on_spark.fsck.findings import Finding
from kafka_on_spark.fsck.log_rules import Flaw
from kafka_on_spark.fsck.registers import Member
from kafka_on_spark.log.batch import HEADER, Batch, ProducerStamp, Segment, epoch_in_name
from kafka_on_spark.log.compaction import NO_PROGRESS, CompactionProgress
from kafka_on_spark.log.merging import Content
from kafka_on_spark.log.segments import APPEND_TIME
from kafka_on_spark.log.state import batch_digests
from kafka_on_spark.store.delta.delta_files import FileEntry


class BatchHeader(NamedTuple):
    """What each segment's header says of its batch, and that of a merged segment of itself: it has
    no partition count, and the digest of its records."""

    record_count: int
    partition_count: int | None
    leader_epoch: int
    stamp: ProducerStamp | None
    timestamp_type: int
    time_ms: int
    content_digest: int | None


class LoggedFile(NamedTuple):
    """One segment of a batch, by its header."""

    entry: FileEntry
    batch_base_offset: int
    base_offset: int
    end_offset: int
    record_count: int
    chain_digest: ChainDigest
    header: BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedBatch:
    """A batch or a merged segment, by the headers of its segments, which are in offset order.

    Attributes:
        fingerprint: Equal for copies of one append only. It covers offsets, epoch, producer, and
            the identity, digest and record count of each segment.
        chain_digest: Of the log up to its end, as its last segment claims.
    """

    base_offset: int
    end_offset: int
    leader_epoch: int
    stamp: ProducerStamp | None
    fingerprint: str
    chain_digest: ChainDigest
    segments: tuple[LoggedFile, ...]

    @property
    def is_merged(self) -> bool:
        return is_merged(self.segments[0].entry)

    @property
    def has_append_time(self) -> bool:
        return self.segments[0].header.timestamp_type == APPEND_TIME

    @property
    def record_count(self) -> int:
        return sum(segment.record_count for segment in self.segments)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(segment.entry.path for segment in self.segments)

    @property
    def uuids(self) -> tuple[str, ...]:
        """Identities of the segments, the same under every epoch's name."""
        return tuple(path.split("-")[1] for path in self.paths)

    def computes_after(self, before: ChainDigest, topic_id: TopicId, partition: int) -> bool:
        """Return whether its segments' chain digests are those that its headers and names lead to
        after `before`; that of a merged segment can't be computed."""
        if self.is_merged:
            return True
        header, claimed = self.segments[0].header, tuple(e.chain_digest for e in self.segments)
        assert header.partition_count is not None, "of a batch"
        try:
            batch = Batch(
                base_offset=Offset(self.base_offset),
                record_count=header.record_count,
                leader_epoch=LeaderEpoch(self.leader_epoch),
                partition_count=header.partition_count,
                producer=self.stamp,
                appended_at_ms=header.time_ms,
                segments=tuple(
                    Segment(
                        file_name=segment.entry.path,
                        size_bytes=segment.entry.size_bytes,
                        record_count=segment.record_count,
                        timestamp_min_us=0,
                        timestamp_max_us=0,
                    )
                    for segment in self.segments
                ),
                has_append_time=self.has_append_time,
            )
            return batch_digests(before, topic_id, partition, batch) == claimed
        except (AssertionError, TypeError):
            return False  # no valid header has such values


def batches_of(entries: Iterable[FileEntry]) -> tuple[list[LoggedBatch], list[Flaw]]:
    """Return the batches that files make, in offset order, and what is wrong with them. A file
    without a readable header is in no batch."""
    found = [_file(entry) for entry in entries]
    flaws = [each for each in found if isinstance(each, Flaw)]
    files = [each for each in found if isinstance(each, LoggedFile)]
    files.sort(key=lambda file: (file.batch_base_offset, file.base_offset))
    batches = []
    for base_offset, group in groupby(files, lambda file: file.batch_base_offset):
        segments = list(group)
        flaws.extend(_flaws(base_offset, segments))
        batches.append(_batch(base_offset, segments))
    return batches, flaws


_OF_ONE_APPEND: Final = (
    *("batch_base_offset", "batch_record_count", "partition_count"),
    *("producer_id", "producer_epoch", "sequence", "payload_digest"),
)


def is_merged(entry: FileEntry) -> bool:
    return entry.values.get("content_digest") is not None


def _file(entry: FileEntry) -> LoggedFile | Flaw:
    values, count, is_one = entry.values, entry.record_count, is_merged(entry)
    if epoch_in_name(entry.path) is None:
        return Flaw("I15", f"the file {entry.path} is no segment by its name")
    if count is None or count < (0 if is_one else 1):
        return Flaw("I15", f"the statistics of {entry.path} name no number of records")
    if values.keys() != HEADER:
        sentence = f"the header of {entry.path} lacks columns, or has others than a header has"
        return Flaw("I15", sentence)
    if is_one:  # it is as a batch of its own
        of_batch = {"batch_base_offset": values["base_offset"], "batch_record_count": str(count)}
        if any(values[name] is not None for name in _OF_ONE_APPEND):
            return Flaw("I15", f"the merged segment {entry.path} has the header of an append")
        values = {**values, **of_batch}
    try:
        base, end = _number(values, "base_offset"), _number(values, "end_offset")
        if is_one and end <= base:
            return Flaw("I25", f"the merged segment {entry.path} covers [{base}, {end})", base)
        header = BatchHeader(
            record_count=_number(values, "batch_record_count"),
            partition_count=None if is_one else _number(values, "partition_count"),
            leader_epoch=_number(values, "leader_epoch"),
            stamp=_stamp(values),
            timestamp_type=_number(values, "timestamp_type"),
            time_ms=entry.time_ms,
            content_digest=_number(values, "content_digest") if is_one else None,
        )
        chain_digest = ChainDigest(values["chain_digest"] or "")
        batch_base = _number(values, "batch_base_offset")
        return LoggedFile(entry, batch_base, base, end, count, chain_digest, header)
    except (AssertionError, TypeError, ValueError):
        return Flaw("I15", f"the file {entry.path} has no whole batch header")


def _number(values: Mapping[str, str | None], name: str) -> int:
    text = values[name]
    if text is None:
        raise ValueError(name)
    return int(text)


def _stamp(values: Mapping[str, str | None]) -> ProducerStamp | None:
    producer_id = values["producer_id"]
    if producer_id is None:
        return None
    return ProducerStamp(
        producer_id=producer_id,
        producer_epoch=ProducerEpoch(_number(values, "producer_epoch")),
        sequence=_number(values, "sequence"),
        payload_digest=_number(values, "payload_digest"),
    )


def _flaws(base_offset: int, segments: Sequence[LoggedFile]) -> Iterable[Flaw]:
    first, count = segments[0], sum(segment.record_count for segment in segments)
    if is_merged(first.entry) and len(segments) == 1:
        if count > first.end_offset - base_offset:
            where = f"[{base_offset}, {first.end_offset})"
            yield Flaw("I25", f"a merged segment has {count} records at {where}", base_offset)
        return
    if any(segment.header != first.header for segment in segments):
        yield Flaw("I15", "the segments of a batch have different headers", base_offset)
    expected = base_offset
    for segment in segments:
        if segment.base_offset != expected:
            sentence = f"a batch's segment begins at {segment.base_offset}, not at {expected}"
            yield Flaw("I10", sentence, base_offset)
        expected = segment.base_offset + segment.record_count
        if segment.end_offset != expected:
            sentence = f"a segment's header ends it at {segment.end_offset}, not at {expected}"
            yield Flaw("I10", sentence, base_offset)
    if count != first.header.record_count:
        sentence = f"a batch's segments have {count} records, its header says"
        yield Flaw("I15", f"{sentence} {first.header.record_count}", base_offset)


def _batch(base_offset: int, segments: Sequence[LoggedFile]) -> LoggedBatch:
    first, last = segments[0], segments[-1]
    files = [
        (*segment.entry.path.split("-")[1:], segment.base_offset, segment.record_count)
        for segment in segments
    ]
    content = repr((base_offset, first.header, files)).encode()
    return LoggedBatch(
        base_offset=base_offset,
        end_offset=last.end_offset
        if is_merged(last.entry)
        else last.base_offset + last.record_count,
        leader_epoch=first.header.leader_epoch,
        stamp=first.header.stamp,
        fingerprint=blake2b(content, digest_size=16).hexdigest(),
        chain_digest=last.chain_digest,
        segments=tuple(segments),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLifetime:
    """From when to when a batch was in one replica's log.

    Attributes:
        added_version: For the first batches of a history that was cleaned up, where it begins.
        removed_version: None: it is there.
        is_own: It was appended here as by a leader, not fetched from one.
    """

    batch: LoggedBatch
    added_version: int
    removed_version: int | None = None
    is_own: bool


@dataclass(slots=True, kw_only=True)
class EpochSpan:
    """The versions during which a replica was fenced at one leadership.

    Attributes:
        first_version: The version that adopted it (or that the history begins at).
        end_before: Log end before it was adopted; None: not known.
        end_adopted: Log end that adopting left.
        end_offset: Log end in the last version: under one leadership nothing is cut.
    """

    leader_epoch: int
    first_version: int
    end_before: int | None
    end_adopted: int
    last_version: int = -1
    start_offset: int = 0
    end_offset: int = 0


@dataclass(slots=True, kw_only=True)
class ReplicaTrace:
    """One replica's history; counters are those of the last version, `leader_epoch` is its fence.

    Attributes:
        is_read: Its log could be read to the end: all else is of its newest state.
        is_chained: All chain digests that it ever had were those computed.
        forgotten_producers: Producers whose headers went and that its producer-state file lacks,
            each with the newest epoch in those headers.
        lifetimes: Those of every batch that it ever had; one that is merged is still there.
        merged: Merged segments that it had and whose batches its history does not tell: it begins
            later, or they were fetched, or compaction made them.
        borders: Ends of batches in the last version, and the chain digests there.
        contents: What its files hold between each two borders of the audit's order; None: they were
            not read, or are damaged.
    """

    broker_id: BrokerId
    replica_uuid: ReplicaUuid
    is_read: bool = False
    is_chained: bool = True
    first_version: int = 0
    last_version: int = -1
    log_start_offset: int = 0
    log_end_offset: int = 0
    leader_epoch: int | None = None
    forgotten_producers: tuple[tuple[str, int], ...] = ()
    lifetimes: tuple[BatchLifetime, ...] = ()
    merged: tuple[LoggedBatch, ...] = ()
    borders: Mapping[int, ChainDigest] = field(default_factory=dict)
    has_merged_files: bool = False
    compaction: CompactionProgress = NO_PROGRESS
    contents: tuple[Content, ...] | None = None
    spans: list[EpochSpan] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    read_files: int = 0
    read_bytes: int = 0

    @property
    def member(self) -> Member:
        return self.broker_id, self.replica_uuid

    @property
    def batches(self) -> list[LoggedBatch]:
        return [lifetime.batch for lifetime in self.lifetimes if lifetime.removed_version is None]

    def has_chain(self, offset: int, digest: str) -> bool:
        return self.is_chained and self.borders.get(offset) == digest

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
        found = [
            each.batch
            for each in self.lifetimes
            if each.added_version <= span.last_version
            and (each.removed_version is None or each.removed_version > span.first_version)
        ]
        return sorted(found, key=lambda batch: batch.base_offset)
