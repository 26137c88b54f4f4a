"""A merged segment: whole batches of one leadership, side by side in one file.

Apart from `batch`: an append makes batches, and merging, compaction and a fetch of a part make
these. A log holds both, and asks both what they cover: offsets, an epoch, a digest at the end.
Records of a merged segment may be gone, so its offsets may have gaps, and it may be left empty.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple

from kafka_on_spark.base.errors import ensure
from kafka_on_spark.base.ids import ChainDigest, LeaderEpoch, Offset
from kafka_on_spark.log.batch import TIME_MS_END, Batch, Segment

OFFSETS_MAX: Final = 2**31 - 1
"""Offsets that a merged segment covers at most: a record's offset is 32 bits from its base."""


class Border(NamedTuple):
    """Where a plain segment ended that was merged: the offset, and the log's chain digest there."""

    offset: Offset
    chain_digest: ChainDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSegment:
    """Whole batches of one leadership and one kind of timestamps, in one file.

    Attributes:
        base_offset: First offset that it covers; there may be no record at it.
        end_offset: Offset after the last one that it covers.
        leader_epoch: Leadership that appended its batches.
        appended_at_ms: The newest append time of its batches.
        segment: The file. Each record's timestamp is in it, an append time too.
        content_digest: Sum of its records' hashes, offset and timestamp included, signed 64 bits.
        chain_digest: Chain digest of the log up to its end. It is taken from the last segment
            that went in: it can't be computed.
        has_append_time: As in Batch.
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
        """The one file."""
        return (self.segment,)

    @property
    def chain_digests(self) -> tuple[ChainDigest, ...]:
        """The one chain digest that the header has."""
        return (self.chain_digest,)

    @property
    def size_bytes(self) -> int:
        """Bytes of the file."""
        return self.segment.size_bytes

    @property
    def oldest_ms(self) -> int:
        """When its first record was appended, or before: it knows when the last one was, and the
        smallest timestamp, which Kafka goes by."""
        return min(self.segment.timestamp_min_us // 1000, self.appended_at_ms)

    def named_under(self, leader_epoch: LeaderEpoch) -> "MergedSegment":
        """Return the segment under the name that it has in a table fenced at `leader_epoch`."""
        return replace(self, segment=self.segment.named_under(leader_epoch))

    def borders_within(self, offset: Offset) -> Iterator[Border]:
        """Yield the borders at or below `offset` that are known, the highest first."""
        own = (Border(self.end_offset, self.chain_digest),)
        return (each for each in reversed(self.borders or own) if each.offset <= offset)

    def ranges(self) -> Iterator[tuple[Segment, Offset, Offset]]:
        """Yield the file with the offsets that it covers, the end exclusive."""
        yield self.segment, self.base_offset, self.end_offset


LogPart = Batch | MergedSegment
"""What a log is made of, side by side without gap."""
