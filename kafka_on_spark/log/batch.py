"""What a log is made of: segments, how their files are named, batches and merged segments.

A batch is all records of one append to one partition, in one or more segments. It is committed,
fetched and cut as a whole. Its header travels with it from leader to follower, so an append is
idempotent across leaders. An append makes batches; merging, compaction and the fetch of a part make
merged segments, in which whole batches of one leadership stand side by side. Records of a merged
segment may be gone, so its offsets may have gaps, and it may be left empty.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple, Self

from kafka_on_spark.base.ids import ChainDigest, LeaderEpoch, Offset, ProducerEpoch, ensure
from kafka_on_spark.base.merge_tiers import OFFSETS_MAX

HEADER: Final = frozenset(
    {"base_offset", "end_offset", "batch_base_offset", "batch_record_count", "partition_count"}
    | {"leader_epoch", "producer_id", "producer_epoch", "sequence", "payload_digest"}
    | {"transaction", "timestamp_type", "chain_digest", "content_digest"}
)
"""The columns of each segment's header; a value may be null."""

SEGMENTS_A_BATCH_MAX: Final = 2**15
"""Segments of one batch. A batch is added by one commit, so it can't be spread over several as a
fetch is: each takes up to a kilobyte of the commit, and as much again with a producer's longest id,
and nobody reads a commit that is larger than a commit can be."""

_SEGMENT_NAME: Final = re.compile(r"[0-9]{1,10}-[0-9A-Za-z_]+-[0-9A-Za-z_]+\.parquet")


def epoch_in_name(name: str) -> LeaderEpoch | None:
    """Return the leader epoch in a segment's name; None: it is not the plain name of a segment,
    which leads to no other folder."""
    return LeaderEpoch(int(name.split("-", 1)[0])) if _SEGMENT_NAME.fullmatch(name) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """An immutable Parquet file of records.

    Attributes:
        file_name: Its name in the replica's folder: ``<leader epoch>-<uuid>-<digest>.parquet``.
        record_count: Records in it; at least 1, but in a merged segment whose records all went.
        timestamp_min_us: Smallest record timestamp, µs since 1970 UTC; without records, of those
            that went.
    """

    file_name: str
    size_bytes: int
    record_count: int
    timestamp_min_us: int
    timestamp_max_us: int

    def __post_init__(self) -> None:
        # A plain name: a commit can only name files in the replica's own folder.
        ensure(
            _SEGMENT_NAME.fullmatch(self.file_name) is not None
            and self.record_count >= 0
            and self.size_bytes >= 0
            and self.timestamp_min_us <= self.timestamp_max_us,
            self,
        )

    @property
    def epoch_in_name(self) -> LeaderEpoch:
        return LeaderEpoch(int(self.file_name.split("-", 1)[0]))

    @property
    def uuid(self) -> str:
        """The file's identity, the same under every epoch's name."""
        return self.file_name.split("-", 2)[1]

    @property
    def digest(self) -> str:
        """xxh3_128 of the file's bytes, 32 hexadecimal digits."""
        return self.file_name.split("-")[2].removesuffix(".parquet")

    def named_under(self, leader_epoch: LeaderEpoch) -> "Segment":
        if self.epoch_in_name == leader_epoch:
            return self
        return replace(self, file_name=segment_name(leader_epoch, self.uuid, self.digest))


def segment_name(leader_epoch: LeaderEpoch, uuid: str, digest: str) -> str:
    return f"{leader_epoch}-{uuid}-{digest}.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStamp:
    """The producer of a batch, for idempotence.

    Attributes:
        producer_epoch: The producer's run; a higher one fences the lower.
        sequence: Its append number, the same for all partitions of the append.
        payload_digest: Of the records of the whole append, to all partitions, signed 64 bits; of a
            `Producer`, which appends to each partition by itself, of this partition's.
    """

    producer_id: str
    producer_epoch: ProducerEpoch
    sequence: int
    payload_digest: int

    def __post_init__(self) -> None:
        ensure(self.sequence >= 0 and self.producer_epoch >= 0, self)
        ensure(-(2**63) <= self.payload_digest < 2**63, self)

    @property
    def is_consecutive(self) -> bool:
        """Whether it is a producer that speaks Kafka's protocol."""
        return self.producer_id.startswith(CLIENT_PREFIX)


TIME_MS_END: Final = 2**63 // 1000
"""Exclusive bound of times: in microseconds they still fit into 64 bits."""

WRITER_PREFIX: Final = "transaction/"
"""Prefix of the names of writers' epochs among producers'; no producer id begins with it."""

CLIENT_PREFIX: Final = "kafka/"
"""Prefix of the ids of producers that speak Kafka's protocol (KIP-98): their sequences count the
records of a partition, without gaps, from 0 on in each epoch of the client."""

CLIENT_EPOCH_BITS: Final = 40
"""The sequence of such a producer has the client's epoch above so many bits, and so it rises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFence:
    """The writer that appends, of those under one transactional id (KIP-98's transactional.id).

    Apart from the producer stamp, which identifies an append: a query that is restarted is another
    writer, and its last batch is still the same append.

    Of two writers with one id the higher `epoch` fences the lower.
    """

    transactional_id: str
    epoch: ProducerEpoch

    @property
    def key(self) -> str:
        return f"{WRITER_PREFIX}{self.transactional_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBatch:
    """An append to one partition before it has offsets: files are written, nothing is committed.

    Attributes:
        segments: In task order, which is the order of their offsets.
        partition_count: The topic's partitions when the records were split.
        is_log_append_time: Records' timestamps are the time of the commit
            (message.timestamp.type=LogAppendTime), not their own.
        renamed_from: Epoch in the files' first names, if the append went on under a later
            leadership and the files were renamed; None: they were not.
        writer: The writer, if older writers are to be fenced. It is not kept with the batch.
        has_keyless: A record has no key, which a compacted topic refuses. It is not kept either.
    """

    segments: tuple[Segment, ...]
    partition_count: int
    producer: ProducerStamp | None = None
    writer: WriterFence | None = None
    is_log_append_time: bool = False
    renamed_from: LeaderEpoch | None = None
    has_keyless: bool = False

    def __post_init__(self) -> None:
        with_records = {each.uuid for each in self.segments if each.record_count}
        ensure(0 < len(with_records) == len(self.segments), self.segments)

    @property
    def record_count(self) -> int:
        return sum(segment.record_count for segment in self.segments)

    @property
    def first_epoch(self) -> LeaderEpoch:
        """The first leadership that may have appended these files: an append names all of them by
        the epoch in which it began."""
        if self.renamed_from is not None:
            return self.renamed_from
        return self.segments[0].epoch_in_name

    def renamed(self, leader_epoch: LeaderEpoch) -> Self:
        """Return the append with its files under names of `leader_epoch`."""
        segments = tuple(each.named_under(leader_epoch) for each in self.segments)
        return replace(self, segments=segments, renamed_from=self.first_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A committed batch with its offsets.

    Attributes:
        appended_at_ms: Time of the leader's commit; copied by followers
            (AddFile.modificationTime).
        has_append_time: The records' timestamps are the append time (LogAppendTime), not the
            file's.
        chain_digests: Chain digests of the log up to the end of each segment, in order, as the
            headers claim them; empty before they are computed (see `state.chained`).
    """

    base_offset: Offset
    record_count: int
    leader_epoch: LeaderEpoch
    partition_count: int
    producer: ProducerStamp | None
    appended_at_ms: int
    segments: tuple[Segment, ...]
    has_append_time: bool = False
    chain_digests: tuple[ChainDigest, ...] = ()

    def __post_init__(self) -> None:
        ensure(
            self.base_offset >= 0
            and self.record_count > 0
            and self.leader_epoch >= 0
            and self.partition_count > 0
            and 0 <= self.appended_at_ms < TIME_MS_END,
            self,
        )

    @property
    def end_offset(self) -> Offset:
        return Offset(self.base_offset + self.record_count)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def file_count(self) -> int:
        return len(self.segments)

    @property
    def oldest_ms(self) -> int:
        """When its first record was appended."""
        return self.appended_at_ms

    @property
    def chain_digest(self) -> ChainDigest:
        return self.chain_digests[-1]

    @property
    def common_timestamp_us(self) -> int | None:
        """The timestamp of all records, µs since 1970 UTC; None: each has its own in the file."""
        return self.appended_at_ms * 1000 if self.has_append_time else None

    def ranges(self) -> Iterator[tuple[Segment, Offset, Offset]]:
        """Yield each segment with the offsets that it covers, the end exclusive."""
        base_offset = self.base_offset
        for segment in self.segments:
            end_offset = Offset(base_offset + segment.record_count)
            yield segment, base_offset, end_offset
            base_offset = end_offset

    def named_under(self, leader_epoch: LeaderEpoch) -> Self:
        segments = tuple(each.named_under(leader_epoch) for each in self.segments)
        return replace(self, segments=segments)


class Border(NamedTuple):
    """Where a plain segment ended that was merged: the offset, and the log's chain digest there."""

    offset: Offset
    chain_digest: ChainDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSegment:
    """Whole batches of one leadership and one kind of timestamps, in one file.

    Attributes:
        base_offset: First offset that it covers; there may be no record at it.
        appended_at_ms: The newest append time of its batches.
        segment: The file. Each record's timestamp is in it, an append time too.
        content_digest: Sum of its records' hashes, offset and timestamp included, signed 64 bits.
        chain_digest: Chain digest of the log up to its end. It is taken from the last segment
            that went in: it can't be computed.
        borders: The ends of the plain segments that went in, its own end last, if they were read
            from the file; empty: compaction has dropped them; None: they were not read.
    """

    base_offset: Offset
    end_offset: Offset
    leader_epoch: LeaderEpoch
    appended_at_ms: int
    segment: Segment
    content_digest: int
    chain_digest: ChainDigest
    has_append_time: bool = False
    borders: tuple[Border, ...] | None = field(default=None, compare=False)

    # One append has these, and a merged segment is of many.
    producer: ClassVar[None] = None
    partition_count: ClassVar[None] = None
    common_timestamp_us: ClassVar[None] = None
    file_count: ClassVar[int] = 1

    def __post_init__(self) -> None:
        ensure(
            0 <= self.base_offset < self.end_offset <= self.base_offset + OFFSETS_MAX
            and self.record_count <= self.end_offset - self.base_offset
            and self.leader_epoch >= 0
            and 0 <= self.appended_at_ms < TIME_MS_END
            and -(2**63) <= self.content_digest < 2**63,
            self,
        )

    @property
    def record_count(self) -> int:
        """Records in the file; fewer than offsets if some are gone."""
        return self.segment.record_count

    @property
    def segments(self) -> tuple[Segment, ...]:
        return (self.segment,)

    @property
    def chain_digests(self) -> tuple[ChainDigest, ...]:
        return (self.chain_digest,)

    @property
    def size_bytes(self) -> int:
        return self.segment.size_bytes

    @property
    def oldest_ms(self) -> int:
        """When its first record was appended, or before: it knows when the last one was, and the
        smallest timestamp, which Kafka goes by."""
        return min(self.segment.timestamp_min_us // 1000, self.appended_at_ms)

    def named_under(self, leader_epoch: LeaderEpoch) -> "MergedSegment":
        return replace(self, segment=self.segment.named_under(leader_epoch))

    def ranges(self) -> Iterator[tuple[Segment, Offset, Offset]]:
        yield self.segment, self.base_offset, self.end_offset


LogPart = Batch | MergedSegment
"""What a log is made of, side by side without gap."""
