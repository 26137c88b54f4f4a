"""What of a log may be compacted next, and how much it would be worth.

Source: LogCleanerManager.cleanableOffsets and LogToClean; a batch stands for Kafka's segment, and
its append time for the newest timestamp in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.merged_segment import LogPart


@dataclass(frozen=True, slots=True)
class Dirt:
    """A log's dirty part: what compaction has not seen.

    Attributes:
        first_dirty: Where it begins.
        cleanable_below: Where what may be compacted ends: a border of batches.
        clean_bytes: Bytes before the dirty part.
        dirty_bytes: Bytes from there to `cleanable_below`.
        oldest_dirty_ms: When the first dirty batch that may be compacted was appended, or before;
            None: there is none.
    """

    first_dirty: Offset
    cleanable_below: Offset
    clean_bytes: int
    dirty_bytes: int
    oldest_dirty_ms: int | None

    @property
    def ratio(self) -> float:
        """Dirty bytes by all bytes below `cleanable_below`; 0 if there are none."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


def dirt_of(
    parts: Iterable[LogPart],
    *,
    log_start_offset: Offset,
    compacted_below: Offset,
    stable_below: Offset,
    appended_before_ms: int,
) -> Dirt:
    """Return what may be compacted of a log, its `parts` in order.

    It ends at or below `stable_below`, the last stable offset, and before the first batch that was
    not appended before `appended_before_ms`. Retention may have passed `compacted_below`.
    """
    first_dirty = max(log_start_offset, compacted_below)
    cleanable_below, clean_bytes, dirty_bytes = first_dirty, 0, 0
    oldest: int | None = None
    for each in parts:
        if each.end_offset <= first_dirty:
            clean_bytes += each.size_bytes
            continue
        if each.end_offset > stable_below or each.appended_at_ms >= appended_before_ms:
            break
        cleanable_below = each.end_offset
        dirty_bytes += each.size_bytes
        oldest = each.oldest_ms if oldest is None else min(oldest, each.oldest_ms)
    return Dirt(first_dirty, cleanable_below, clean_bytes, dirty_bytes, oldest)
