"""Which neighbouring segments of a log a replica rewrites next, as one.

Compaction goes from the log start upwards, so a tombstone goes with or after all that it deleted.
Each group is one commit: another process can go on after any. Source: Cleaner.groupSegmentsBySize.
"""

from collections.abc import Sequence

from kafka_on_spark.log.merged_segment import OFFSETS_MAX, LogPart
from kafka_on_spark.log.progress import CompactionProgress


def next_group(
    parts: Sequence[LogPart],
    progress: CompactionProgress,
    *,
    bytes_max: int,
    records_max: int,
    files_max: int,
) -> range | None:
    """Return the places of the parts that are looked at next; None: there are no more.

    Their bytes are at most `bytes_max`, their records `records_max` and their files `files_max`, or
    they are one part. The last one may reach above the target: its records from there on stay.
    """
    first = next(
        (place for place, each in enumerate(parts) if each.end_offset > progress.compacted_to),
        None,
    )
    is_done = progress.compacted_to >= progress.round_below
    if first is None or is_done or parts[first].base_offset >= progress.round_below:
        return None
    begin, end = parts[first], first + 1
    size_bytes, record_count, file_count = begin.size_bytes, begin.record_count, len(begin.segments)
    for each in parts[end:]:
        size_bytes += each.size_bytes
        record_count += each.record_count
        file_count += len(each.segments)
        if (
            size_bytes > bytes_max
            or record_count > records_max
            or file_count > files_max
            or each.base_offset >= progress.round_below
            or each.leader_epoch != begin.leader_epoch
            or each.has_append_time != begin.has_append_time
            or each.end_offset - begin.base_offset > OFFSETS_MAX
        ):
            break
        end += 1
    return range(first, end)
