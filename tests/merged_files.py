"""Merged segments of the fakes: what a file without records has of borders and digests."""

from collections.abc import Callable, Sequence
from hashlib import blake2b

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import Batch, Border, LogPart, MergedSegment, Segment, segment_name

Borders = tuple[Border, ...]


def borders_of(part: LogPart, known: Callable[[MergedSegment], Borders]) -> Borders:
    """Return the borders of a part of a log; `known`: those in a merged segment's file."""
    if not isinstance(part, Batch):
        return known(part) or (Border(part.end_offset, part.chain_digest),)
    ends = zip(part.ranges(), part.chain_digests, strict=True)
    return tuple(Border(end_offset, digest) for (_, _, end_offset), digest in ends)


def rewritten(
    parts: Sequence[LogPart],
    known: Callable[[MergedSegment], Borders],
    *,
    name: str,
    leader_epoch: LeaderEpoch,
    start_offset: Offset,
    end_offset: Offset,
) -> tuple[MergedSegment, Borders]:
    """Return the segment that a SegmentStore's `rewrite` makes, and the borders in its file.

    Nothing is gone from what the fakes merge, so there is a record at each offset.
    """
    found = [each for part in parts for each in borders_of(part, known)]
    borders = tuple(each for each in found if start_offset < each.offset <= end_offset)
    if not borders or borders[-1].offset != end_offset:
        raise CorruptLogError("a cut at an offset where no batch ended", offset=end_offset)
    times = [each for part in parts for each in part.segments]
    count = end_offset - start_offset
    merged = MergedSegment(
        base_offset=start_offset,
        end_offset=end_offset,
        leader_epoch=parts[0].leader_epoch,
        appended_at_ms=max(part.appended_at_ms for part in parts),
        segment=Segment(
            file_name=segment_name(
                leader_epoch, name, blake2b(repr(borders).encode(), digest_size=16).hexdigest()
            ),
            size_bytes=sum(each.size_bytes for each in times),
            record_count=count,
            timestamp_min_us=min(each.timestamp_min_us for each in times),
            timestamp_max_us=max(each.timestamp_max_us for each in times),
        ),
        content_digest=content_digest(borders),
        chain_digest=borders[-1].chain_digest,
        has_append_time=parts[0].has_append_time,
    )
    return merged, borders


def content_digest(borders: Sequence[Border]) -> int:
    """Return a sum over the plain segments that end at some borders, as of their records."""
    return sum(int(each.chain_digest[:12], 16) for each in borders) % 2**63
