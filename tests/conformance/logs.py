"""Logs as vectors state them, as replica states: one batch a record, unless batches are given."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import Batch, Segment, StagedBatch, segment_name
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.log.truncation import EpochEntry, EpochHistory
from tests.builders import digest_at, identity

RECORD_BYTES = 1


def batch_of(
    base_offset: int,
    epoch: int,
    count: int = 1,
    *,
    timestamp_ms: int = 0,
    appended_at_ms: int = 0,
    name: str = "",
) -> Batch:
    """Return a batch in one file; the same offset, epoch and name are the same append."""
    return Batch(
        base_offset=Offset(base_offset),
        record_count=count,
        leader_epoch=LeaderEpoch(epoch),
        partition_count=1,
        producer=None,
        appended_at_ms=appended_at_ms,
        segments=(segment_of(base_offset, epoch, count, timestamp_ms=timestamp_ms, name=name),),
    )


def segment_of(
    base_offset: int, epoch: int, count: int = 1, *, timestamp_ms: int = 0, name: str = ""
) -> Segment:
    return Segment(
        file_name=segment_name(LeaderEpoch(epoch), f"{base_offset}x{epoch}x{count}{name}", "d"),
        size_bytes=RECORD_BYTES * count,
        record_count=count,
        timestamp_min_us=timestamp_ms * 1000,
        timestamp_max_us=timestamp_ms * 1000,
    )


def staged_of(base_offset: int, epoch: int, count: int = 1) -> StagedBatch:
    """Return an append of `count` records in one file."""
    return StagedBatch(segments=(segment_of(base_offset, epoch, count),), partition_count=1)


def log_of(
    batches: Iterable[Batch],
    *,
    start: int | None = None,
    end: int | None = None,
    fence: int | None = None,
) -> ReplicaState:
    """Return the log of `batches`; without any it is empty at `start`."""
    given = tuple(batches)
    first = given[0].base_offset if given else (start or 0)
    last = given[-1].end_offset if given else first
    assert end is None or end == last, (end, last)
    empty = ReplicaState(
        identity=identity(),
        log_start_offset=Offset(first if start is None else start),
        log_end_offset=Offset(last),
        leader_epoch=None if fence is None else LeaderEpoch(fence),
        chain_before=digest_at(first),
    )
    return replace(empty, batches=in_chain(empty, given))


def in_chain(log: ReplicaState, batches: Iterable[Batch]) -> tuple[Batch, ...]:
    """Return batches that continue `log` with their chain digests, which vectors do not have."""
    made: list[Batch] = []
    for batch in batches:
        made.append(replace(log, batches=(*log.batches, *made)).chained(batch))
    return tuple(made)


def history_of(entries: Sequence[Sequence[int]]) -> EpochHistory:
    return tuple(EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries)


def entries_of(history: EpochHistory) -> list[list[int]]:
    return [[each.leader_epoch, each.start_offset] for each in history]


def assigned(history: EpochHistory, entry: EpochEntry) -> EpochHistory:
    """Return the history once records of `entry`'s epoch begin at its offset.

    A further record of the latest epoch says nothing new. An entry that contradicts the new one, of
    an epoch not below it or with a start at or after it, was cut off and is dropped. Source:
    LeaderEpochFileCache.assign.
    """
    last = history[-1] if history else None
    if last and last.leader_epoch == entry.leader_epoch and last.start_offset <= entry.start_offset:
        return history
    kept = (
        each
        for each in history
        if each.leader_epoch < entry.leader_epoch and each.start_offset < entry.start_offset
    )
    return (*kept, entry)


def cut_from_end(history: EpochHistory, end_offset: Offset) -> EpochHistory:
    """Return the history of the log cut at `end_offset`: epochs that start there are gone."""
    return tuple(each for each in history if each.start_offset < end_offset)


def cut_from_start(history: EpochHistory, start_offset: Offset) -> EpochHistory:
    """Return the history of the log that starts at `start_offset` now.

    The epoch that has the start begins there; a history that ends before it keeps its latest
    epoch, so that an emptied log still knows it.
    """
    before = [each for each in history if each.start_offset <= start_offset]
    if not before:
        return history
    first = EpochEntry(before[-1].leader_epoch, start_offset)
    return (first, *history[len(before) :])


def log_with_history(
    entries: Sequence[Sequence[int]],
    *,
    end: int,
    start: int | None = None,
    fence: int | None = None,
) -> ReplicaState:
    """Return a log of single records from the first entry to `end` whose history is `entries`.

    Its fence is the last entry's epoch, unless given.
    """
    first = entries[0][1] if entries else (end if start is None else start)
    ends = [entry[1] for entry in entries[1:]] + [end]
    batches = (
        [
            batch_of(offset, epoch)
            for (epoch, begin), stop in zip(entries, ends, strict=True)
            for offset in range(begin, min(stop, end))
        ]
        if entries
        else [batch_of(offset, 0) for offset in range(first, end)]
    )
    last = entries[-1][0] if entries else None
    return replace(
        log_of(batches, start=first if start is None else start),
        leader_epoch=last if fence is None else LeaderEpoch(fence),
    )
