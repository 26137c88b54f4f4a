"""What retention takes, what must outlive it, and which files may be deleted.

No clock decides about a file (FAULTS b.38): a name carries the epoch under which it was
staged, and an epoch that every replica has left behind can bring no commit that names it.
"""

from collections.abc import Iterable

from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.producer_state import counters_of
from kafka_on_spark.log.state import ProducerCounter, ReplicaState


def surviving_counters(state: ReplicaState, log_start_offset: Offset) -> dict[str, ProducerCounter]:
    """Return the counters to write when the log start moves to `log_start_offset`.

    Also of a producer that still has a batch in the log: that one may lie above the high
    watermark and be cut off, and what was removed must not be forgotten with it. A counter
    that stands there already never goes back: it may be the fence of a run that appended
    nothing.
    """
    removed = [batch for batch in state.batches if batch.end_offset <= log_start_offset]
    return {
        producer_id: counter.at_least(state.producers.get(producer_id, counter))
        for producer_id, counter in counters_of(removed).items()
    }


def is_deletable(
    file_epoch: LeaderEpoch, *, is_named: bool, fences: Iterable[LeaderEpoch | None]
) -> bool:
    """Return whether a segment file staged under `file_epoch` may be deleted.

    `is_named`: some replica's log names it. `fences`: of all replicas of the partition. Once
    true it stays true, so a late cleaner does no harm.
    """
    return not is_named and all(fence is not None and fence > file_epoch for fence in fences)


def retained_from(
    state: ReplicaState,
    *,
    high_watermark: Offset,
    now_ms: int,
    retention_ms: int | None,
    retention_bytes: int | None,
) -> Offset:
    """Return the log start that retention asks for: whole batches go, the oldest first.

    A batch goes while what is left is at least `retention_bytes`, or if its newest record is
    older than `retention_ms`; None sets no bound. One that is not wholly below the high
    watermark stays, and everything after it. Source: UnifiedLog.deleteOldSegments.
    """
    kept = [batch for batch in state.batches if batch.end_offset > state.log_start_offset]
    surplus = sum(batch.size_bytes for batch in kept) - (retention_bytes or 0)
    start_offset = state.log_start_offset
    for batch in kept:
        surplus -= batch.size_bytes
        is_surplus = retention_bytes is not None and surplus >= 0
        is_expired = retention_ms is not None and _newest_ms(batch) < now_ms - retention_ms
        if batch.end_offset > high_watermark or not (is_surplus or is_expired):
            break
        start_offset = batch.end_offset
    return start_offset


def _newest_ms(batch: Batch) -> int:
    return max(segment.timestamp_max_us for segment in batch.segments) // 1000
