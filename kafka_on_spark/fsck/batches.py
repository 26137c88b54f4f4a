"""I10, I15: batches, read from the headers that a table's log names.

Apart from `log.batch`, whose values assert what is checked here: a damaged header is a finding, not
an error.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import Final, NamedTuple

from kafka_on_spark.base.ids import ChainDigest, LeaderEpoch, Offset, ProducerEpoch, TopicId
from kafka_on_spark.log.batch import HEADER, Batch, ProducerStamp, Segment, epoch_in_name
from kafka_on_spark.log.state import batch_digests
from kafka_on_spark.store.delta.history import FileEntry


class Flaw(NamedTuple):
    """What is wrong with a header: the invariant, a sentence, and the offset where."""

    invariant: str
    sentence: str
    offset: int | None


class Stamp(NamedTuple):
    producer_id: str
    producer_epoch: int
    sequence: int
    payload_digest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFile:
    """One segment of a batch.

    Attributes:
        entry: The file as the log names it.
        base_offset: Of its first record.
        batch_base_offset: Where its batch begins.
        batch_record_count: Records of its batch, in all its segments.
        partition_count: The topic's partitions when the batch was split.
        leader_epoch: Leadership that appended the batch.
        stamp: The batch's producer, or None.
        timestamp_type: 0 create time, 1 append time.
        record_count: Records in it.
        end_offset: Where it ends, as its header says.
        chain_digest: Of the log up to there, as its header claims.
        content_digest: Of its records, if it is a merged segment: then what is said of its batch
            is said of itself, and it has no partition count.
    """

    entry: FileEntry
    base_offset: int
    batch_base_offset: int
    batch_record_count: int
    partition_count: int | None
    leader_epoch: int
    stamp: Stamp | None
    timestamp_type: int
    record_count: int
    end_offset: int
    chain_digest: ChainDigest
    content_digest: int | None = None

    @property
    def header(self) -> tuple[object, ...]:
        return (
            self.batch_record_count,
            self.partition_count,
            self.leader_epoch,
            self.stamp,
            self.timestamp_type,
            self.entry.time_ms,
            self.content_digest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedBatch:
    """A batch or a merged segment, read from the headers of its segments.

    Attributes:
        base_offset: Offset of its first record.
        end_offset: Offset after the last record of its segments.
        leader_epoch: Leadership that appended it.
        stamp: Its producer, or None.
        paths: Names of its segments, in offset order.
        fingerprint: Equal for copies of one append only. It covers offsets, epoch, producer, and
            the identity, digest and record count of each segment.
        chain_digest: Of the log up to its end, as its last segment claims.
        segments: In offset order.
    """

    base_offset: int
    end_offset: int
    leader_epoch: int
    stamp: Stamp | None
    paths: tuple[str, ...]
    fingerprint: str
    chain_digest: ChainDigest
    segments: tuple[LoggedFile, ...]

    @property
    def is_merged(self) -> bool:
        """Whether it is a merged segment, which does not tell what batches are in it."""
        return self.segments[0].content_digest is not None

    @property
    def record_count(self) -> int:
        return sum(segment.record_count for segment in self.segments)

    def computes_after(self, before: ChainDigest, topic_id: TopicId, partition: int) -> bool:
        """Return whether its segments' chain digests are those that its headers and names lead to
        after `before`; that of a merged segment can't be computed."""
        if self.is_merged:
            return True
        claimed = tuple(segment.chain_digest for segment in self.segments)
        try:
            return batch_digests(before, topic_id, partition, self._to_batch()) == claimed
        except (AssertionError, TypeError):
            return False  # no valid header has such values

    def _to_batch(self) -> Batch:
        first = self.segments[0]
        assert first.partition_count is not None, "of a batch"
        return Batch(
            base_offset=Offset(self.base_offset),
            record_count=first.batch_record_count,
            leader_epoch=LeaderEpoch(self.leader_epoch),
            partition_count=first.partition_count,
            producer=None
            if self.stamp is None
            else ProducerStamp(
                producer_id=self.stamp.producer_id,
                producer_epoch=ProducerEpoch(self.stamp.producer_epoch),
                sequence=self.stamp.sequence,
                payload_digest=self.stamp.payload_digest,
            ),
            appended_at_ms=first.entry.time_ms,
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
            has_append_time=first.timestamp_type == 1,
        )

    @property
    def uuids(self) -> tuple[str, ...]:
        """Identities of the segments, the same under every epoch's name."""
        return tuple(path.split("-")[1] for path in self.paths)


def batches_of(entries: Iterable[FileEntry]) -> tuple[list[LoggedBatch], list[Flaw]]:
    """Return the batches that files make, in offset order, and what is wrong with them.

    A file without a readable header is in no batch.
    """
    flaws: list[Flaw] = []
    files = []
    for entry in entries:
        file = _file(entry)
        if isinstance(file, Flaw):
            flaws.append(file)
        else:
            files.append(file)
    files.sort(key=lambda file: (file.batch_base_offset, file.base_offset))
    batches = []
    for base_offset, group in groupby(files, lambda file: file.batch_base_offset):
        segments = list(group)
        flaws.extend(_flaws(base_offset, segments))
        batches.append(_batch(base_offset, segments))
    return batches, flaws


def _file(entry: FileEntry) -> LoggedFile | Flaw:
    if epoch_in_name(entry.path) is None:
        return Flaw("I15", f"the file {entry.path} is no segment by its name", None)
    is_merged = entry.values.get("content_digest") is not None
    if entry.record_count is None or entry.record_count < (0 if is_merged else 1):
        return Flaw("I15", f"the statistics of {entry.path} name no number of records", None)
    values = entry.values
    if values.keys() != HEADER:
        sentence = f"the header of {entry.path} lacks columns, or has others than a header has"
        return Flaw("I15", sentence, None)
    try:
        if is_merged:
            return _merged_file(entry, entry.record_count)
        return LoggedFile(
            entry=entry,
            base_offset=_number(values, "base_offset"),
            batch_base_offset=_number(values, "batch_base_offset"),
            batch_record_count=_number(values, "batch_record_count"),
            partition_count=_number(values, "partition_count"),
            leader_epoch=_number(values, "leader_epoch"),
            stamp=_stamp(values),
            timestamp_type=_number(values, "timestamp_type"),
            record_count=entry.record_count,
            end_offset=_number(values, "end_offset"),
            chain_digest=ChainDigest(values["chain_digest"] or ""),
        )
    except (KeyError, TypeError, ValueError):
        return Flaw("I15", f"the file {entry.path} has no whole batch header", None)


_OF_ONE_APPEND: Final = (
    *("batch_base_offset", "batch_record_count", "partition_count"),
    *("producer_id", "producer_epoch", "sequence", "payload_digest"),
)


def _merged_file(entry: FileEntry, record_count: int) -> LoggedFile | Flaw:
    values = entry.values
    base, end = _number(values, "base_offset"), _number(values, "end_offset")
    if any(values[name] is not None for name in _OF_ONE_APPEND):
        return Flaw("I15", f"the merged segment {entry.path} has the header of an append", base)
    if end <= base:
        return Flaw("I25", f"the merged segment {entry.path} covers [{base}, {end})", base)
    return LoggedFile(
        entry=entry,
        base_offset=base,
        batch_base_offset=base,
        batch_record_count=record_count,
        partition_count=None,
        leader_epoch=_number(values, "leader_epoch"),
        stamp=None,
        timestamp_type=_number(values, "timestamp_type"),
        record_count=record_count,
        end_offset=end,
        chain_digest=ChainDigest(values["chain_digest"] or ""),
        content_digest=_number(values, "content_digest"),
    )


def _number(values: Mapping[str, str | None], name: str) -> int:
    text = values[name]
    if text is None:
        raise ValueError(name)
    return int(text)


def _stamp(values: Mapping[str, str | None]) -> Stamp | None:
    producer_id = values.get("producer_id")
    if producer_id is None:
        return None
    return Stamp(
        producer_id,
        _number(values, "producer_epoch"),
        _number(values, "sequence"),
        _number(values, "payload_digest"),
    )


def _flaws(base_offset: int, segments: Sequence[LoggedFile]) -> Iterable[Flaw]:
    first = segments[0]
    if first.content_digest is not None and len(segments) == 1:
        count, end_offset = first.record_count, first.end_offset
        if count > end_offset - base_offset:
            sentence = f"a merged segment has {count} records at [{base_offset}, {end_offset})"
            yield Flaw("I25", sentence, base_offset)
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
    count = sum(segment.record_count for segment in segments)
    if count != first.batch_record_count:
        sentence = (
            f"a batch's segments have {count} records, its header says {first.batch_record_count}"
        )
        yield Flaw("I15", sentence, base_offset)


def _batch(base_offset: int, segments: Sequence[LoggedFile]) -> LoggedBatch:
    paths = tuple(segment.entry.path for segment in segments)
    first, last = segments[0], segments[-1]
    files = [
        (*segment.entry.path.split("-")[1:], segment.base_offset, segment.record_count)
        for segment in segments
    ]
    content = repr((base_offset, first.header, files)).encode()
    return LoggedBatch(
        base_offset=base_offset,
        end_offset=last.end_offset
        if last.content_digest is not None
        else last.base_offset + last.record_count,
        leader_epoch=first.leader_epoch,
        stamp=first.stamp,
        paths=paths,
        fingerprint=blake2b(content, digest_size=16).hexdigest(),
        chain_digest=last.chain_digest,
        segments=tuple(segments),
    )
