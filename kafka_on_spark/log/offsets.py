"""The offset of a log for "earliest", "latest" or a time (Kafka's ListOffsets).

The Delta log is the time index: each segment has its smallest and largest timestamp there, so only
segments that may hold the answer are read, and only their timestamps.
Source: UnifiedLog.fetchOffsetByTimestamp.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.state import ReplicaState


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """An offset, and what is known of the record there.

    Attributes:
        offset: The offset.
        timestamp_us: The record's, µs since 1970 UTC; None: the question was for no record.
        leader_epoch: Leadership that appended it; for a log end, the latest one.
    """

    offset: Offset
    timestamp_us: int | None
    leader_epoch: LeaderEpoch | None


ReadTimestamps = Callable[[Segment], Iterable[tuple[int, int]]]
"""Reads the `offset_delta` and the timestamp, µs, of a segment's records, in offset order."""


def offset_for_time(
    state: ReplicaState, timestamp_us: int, read_timestamps: ReadTimestamps
) -> FoundOffset | None:
    """Return the first record that is not older than `timestamp_us`, or None.

    First by offset: timestamps of producers need not rise.
    """
    for each in _segments(state):
        if each.segment.timestamp_max_us < timestamp_us:
            continue
        for offset, found_us in each.retained_records(state.log_start_offset, read_timestamps):
            if found_us >= timestamp_us:
                return each.found(offset, found_us)
    return None


def offset_of_latest_time(
    state: ReplicaState, read_timestamps: ReadTimestamps
) -> FoundOffset | None:
    """Return the first of the records with the largest timestamp, or None for an empty log.

    Not the last record: timestamps of producers need not rise (KIP-734).
    """
    best: FoundOffset | None = None
    for each in _segments(state):
        if best is not None and each.segment.timestamp_max_us <= (best.timestamp_us or 0):
            continue
        for offset, found_us in each.retained_records(state.log_start_offset, read_timestamps):
            if best is None or found_us > (best.timestamp_us or 0):
                best = each.found(offset, found_us)
    return best


class _Range(NamedTuple):
    """A segment with the offsets that it covers."""

    leader_epoch: LeaderEpoch
    segment: Segment
    base_offset: Offset
    end_offset: Offset

    def found(self, offset: Offset, timestamp_us: int) -> FoundOffset:
        return FoundOffset(offset=offset, timestamp_us=timestamp_us, leader_epoch=self.leader_epoch)

    def retained_records(
        self, log_start_offset: Offset, read_timestamps: ReadTimestamps
    ) -> Iterable[tuple[Offset, int]]:
        """Yield offset and timestamp of the records from the log start on."""
        segment, base_offset = self.segment, self.base_offset
        is_dense = segment.record_count == self.end_offset - base_offset
        if is_dense and segment.timestamp_min_us == segment.timestamp_max_us:
            found: Iterable[tuple[int, int]] = enumerate(
                (segment.timestamp_min_us,) * segment.record_count
            )
        else:
            found = read_timestamps(segment) if segment.record_count else ()
        for offset_delta, timestamp_us in found:
            offset = Offset(base_offset + offset_delta)
            if offset >= log_start_offset:
                yield offset, timestamp_us


def _segments(state: ReplicaState) -> Iterable[_Range]:
    for batch in state.batches:
        for segment, base_offset, end_offset in batch.ranges():
            yield _Range(batch.leader_epoch, segment, base_offset, end_offset)
