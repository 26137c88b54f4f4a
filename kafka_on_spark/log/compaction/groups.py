"""Which neighbouring segments of a log a replica rewrites next, as one.

Compaction goes from the log start upwards, so a tombstone goes with or after all that it deleted.
Each group is one commit: another process can go on after any. Source: Cleaner.groupSegmentsBySize.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.compaction.progress import CompactionProgress

OFFSETS_MAX: Final = 2**31
"""A segment covers fewer offsets, since the file counts them from its first as an int."""


@dataclass(frozen=True, slots=True)
class SegmentExtent:
    """A plain batch with all its segments, or a merged segment.

    Attributes:
        base_offset: Its first offset.
        end_offset: Offset after its last.
        size_bytes: Bytes of its files.
        record_count: Its records.
        leader_epoch: Leadership of its records: a segment has records of one.
        has_append_time: Its timestamps are the append time; a segment has one kind.
        file_count: Its files.
    """

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    record_count: int
    leader_epoch: LeaderEpoch
    has_append_time: bool
    file_count: int


def next_group(
    extents: Sequence[SegmentExtent],
    progress: CompactionProgress,
    *,
    bytes_max: int,
    records_max: int,
    files_max: int,
) -> range | None:
    """Return the places of the extents that are looked at next; None: there are no more.

    Their bytes are at most `bytes_max`, their records `records_max` and their files `files_max`, or
    they are one extent. The last one may reach above the target: its records from there on stay.
    """
    first = next(
        (place for place, each in enumerate(extents) if each.end_offset > progress.compacted_to),
        None,
    )
    is_done = progress.compacted_to >= progress.round_below
    if first is None or is_done or extents[first].base_offset >= progress.round_below:
        return None
    begin, end = extents[first], first + 1
    size_bytes, record_count, file_count = begin.size_bytes, begin.record_count, begin.file_count
    for each in extents[end:]:
        size_bytes += each.size_bytes
        record_count += each.record_count
        file_count += each.file_count
        if (
            size_bytes > bytes_max
            or record_count > records_max
            or file_count > files_max
            or each.base_offset >= progress.round_below
            or each.leader_epoch != begin.leader_epoch
            or each.has_append_time != begin.has_append_time
            or each.end_offset - begin.base_offset >= OFFSETS_MAX
        ):
            break
        end += 1
    return range(first, end)
