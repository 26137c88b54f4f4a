"""Logs as vectors describe them, as replicas' states: each record a batch and a segment."""

from collections.abc import Iterable, Iterator, Sequence

from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import Batch, Segment, StagedBatch, segment_name
from kafka_on_spark.log.state import LogChange, ReplicaState
from tests.builders import identity


def commit(log: ReplicaState, change: LogChange | None) -> ReplicaState:
    """Return the log after `change`, if there is one."""
    return log if change is None else log.apply(change)


def record_segment(epoch: int, offset: int, timestamp_ms: int = 0, count: int = 1) -> Segment:
    """Return the file of the records that epoch `epoch` wrote at `offset`."""
    return Segment(
        path=segment_name(LeaderEpoch(epoch), f"record{offset}", f"digest{epoch}x{offset}"),
        size_bytes=100 * count,
        record_count=count,
        timestamp_min_us=timestamp_ms * 1000,
        timestamp_max_us=timestamp_ms * 1000,
    )


def records(count: int, epoch: int, *, at: int) -> Iterator[StagedBatch]:
    """Yield `count` records to append from offset `at` on, a batch each."""
    for offset in range(at, at + count):
        yield StagedBatch(
            segments=(record_segment(epoch, offset),), partition_count=1, producer=None
        )


def batch_of(base: int, count: int, epoch: int, *, time_ms: int = 0) -> Batch:
    """Return one batch of one segment."""
    return Batch(
        base_offset=Offset(base),
        record_count=count,
        leader_epoch=LeaderEpoch(epoch),
        partition_count=1,
        producer=None,
        appended_at_ms=time_ms,
        segments=(record_segment(epoch, base, time_ms, count),),
    )


def log_of(
    batches: Sequence[Batch],
    *,
    start: int | None = None,
    end: int | None = None,
    fence: int | None = None,
) -> ReplicaState:
    """Return the log of `batches`, fenced at their last epoch unless `fence` says otherwise."""
    last = batches[-1] if batches else None
    first = batches[0].base_offset if batches else Offset(end or 0)
    return ReplicaState(
        identity=identity(),
        log_start_offset=first if start is None else Offset(start),
        log_end_offset=Offset(end or 0) if last is None else last.end_offset,
        leader_epoch=fence if fence is not None else last.leader_epoch if last else None,
        batches=tuple(batches),
    )


def log_of_batches(
    batches: Iterable[tuple[int, int, int]], *, fence: int | None = None
) -> ReplicaState:
    """Return the log of ``(base offset, count, epoch)``, each record a batch of its own."""
    singles = [
        batch_of(base + place, 1, epoch) for base, count, epoch in batches for place in range(count)
    ]
    return log_of(singles, fence=fence)


def log_of_epochs(entries: Sequence[Sequence[int]], log_end_offset: int) -> ReplicaState:
    """Return the log in which each epoch begins where `entries` say, and the last is the fence."""
    ends = [start for _, start in entries[1:]] + [log_end_offset]
    batches = [
        (start, end - start, epoch) for (epoch, start), end in zip(entries, ends, strict=True)
    ]
    start = entries[0][1] if entries else log_end_offset
    log = log_of_batches(batches, fence=entries[-1][0] if entries else None)
    return (
        log if log.batches else log_of([], start=start, end=log_end_offset, fence=log.leader_epoch)
    )
