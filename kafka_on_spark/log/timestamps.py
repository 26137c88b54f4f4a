"""Offsets by time: the time index is the Delta log, whose files know their least and greatest time.

Source: UnifiedLog.fetchOffsetByTimestamp. Times need not rise with offsets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.state import ReplicaState


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """A segment in a log.

    Attributes:
        base_offset: Of its first record.
        leader_epoch: That appended it.
        segment: The file.
    """

    base_offset: Offset
    leader_epoch: LeaderEpoch
    segment: Segment


def segments_of(state: ReplicaState) -> Iterator[SegmentPlace]:
    """Yield the segments with records at or above the log start, in offset order."""
    for batch in state.batches:
        base = batch.base_offset
        for segment in batch.segments:
            end = Offset(base + segment.record_count)
            if end > state.log_start_offset:
                yield SegmentPlace(base, batch.leader_epoch, segment)
            base = end


def segment_at_time(state: ReplicaState, time_us: int) -> SegmentPlace | None:
    """Return the first segment with a record at or after `time_us` (µs since 1970, UTC).

    The first such record of the log is in it, unless it lies below the log start.
    """
    found = (each for each in segments_of(state) if each.segment.timestamp_max_us >= time_us)
    return next(found, None)


def segment_of_max_time(state: ReplicaState) -> SegmentPlace | None:
    """Return the first segment that holds the greatest time of the log, or None if it is empty."""
    return max(segments_of(state), key=lambda each: each.segment.timestamp_max_us, default=None)
