"""The offset of a log for "earliest", "latest" or a time (Kafka's ListOffsets).

The Delta log is the time index: each segment has its smallest and largest timestamp there, so only
segments that may hold the answer are read, and only their timestamps.
Source: UnifiedLog.fetchOffsetByTimestamp.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kafka_on_spark.ids import LeaderEpoch, Offset
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


ReadTimestamps = Callable[[Segment], Sequence[int]]
"""Reads a segment's timestamps, µs, in offset order."""


def offset_for_time(
    state: ReplicaState, timestamp_us: int, read_timestamps: ReadTimestamps
) -> FoundOffset | None:
    """Return the first record that is not older than `timestamp_us`, or None.

    First by offset: timestamps of producers need not rise.
    """
    for base_offset, epoch, segment in _segments(state):
        if segment.timestamp_max_us < timestamp_us:
            continue
        for offset, found_us in _retained_records(state, base_offset, segment, read_timestamps):
            if found_us >= timestamp_us:
                return FoundOffset(offset=offset, timestamp_us=found_us, leader_epoch=epoch)
    return None


def offset_of_latest_time(
    state: ReplicaState, read_timestamps: ReadTimestamps
) -> FoundOffset | None:
    """Return the first of the records with the largest timestamp, or None for an empty log.

    Not the last record: timestamps of producers need not rise (KIP-734).
    """
    best: FoundOffset | None = None
    for base_offset, epoch, segment in _segments(state):
        if best is not None and segment.timestamp_max_us <= (best.timestamp_us or 0):
            continue
        for offset, found_us in _retained_records(state, base_offset, segment, read_timestamps):
            if best is None or found_us > (best.timestamp_us or 0):
                best = FoundOffset(offset=offset, timestamp_us=found_us, leader_epoch=epoch)
    return best


def _segments(state: ReplicaState) -> Iterable[tuple[Offset, LeaderEpoch, Segment]]:
    for batch in state.batches:
        base_offset = batch.base_offset
        for segment in batch.segments:
            yield base_offset, batch.leader_epoch, segment
            base_offset = Offset(base_offset + segment.record_count)


def _retained_records(
    state: ReplicaState, base_offset: Offset, segment: Segment, read_timestamps: ReadTimestamps
) -> Iterable[tuple[Offset, int]]:
    """Yield offset and timestamp of a segment's records from the log start on."""
    if segment.timestamp_min_us == segment.timestamp_max_us:
        timestamps: Sequence[int] = (segment.timestamp_min_us,) * segment.record_count
    else:
        timestamps = read_timestamps(segment)
    for place, timestamp_us in enumerate(timestamps):
        offset = Offset(base_offset + place)
        if offset >= state.log_start_offset:
            yield offset, timestamp_us
