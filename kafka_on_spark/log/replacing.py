"""The operation that puts one merged segment in the place of whole neighbours: a merge or more.

Apart from `operations`, which append, fetch and cut: this one changes no offset and no record that
is kept, so replicas do it by themselves.
"""

from collections.abc import Sequence

from kafka_on_spark.base.errors import ensure
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.merged_segment import LogPart, MergedSegment
from kafka_on_spark.log.operations import check_fence, check_new_names
from kafka_on_spark.log.producer_state import entries_without
from kafka_on_spark.log.producers import RegisteredProducers
from kafka_on_spark.log.progress import CompactionProgress
from kafka_on_spark.log.state import LogChange, ReplicaState


def merge(
    state: ReplicaState,
    inputs: Sequence[LogPart],
    merged: MergedSegment,
    *,
    leader_epoch: LeaderEpoch,
    stable_offset: Offset,
    registered: RegisteredProducers | None = None,
) -> LogChange | None:
    """Decide to put one file in the place of `inputs`, whole neighbours, with all their records.

    Return and raise as `replace_neighbours`.
    """
    in_inputs = sum(each.record_count for each in inputs)
    ensure(merged.record_count == in_inputs, "a merge keeps all records")
    return replace_neighbours(
        state,
        inputs,
        merged,
        operation="merge",
        leader_epoch=leader_epoch,
        stable_offset=stable_offset,
        registered=registered,
    )


def replace_neighbours(
    state: ReplicaState,
    inputs: Sequence[LogPart],
    merged: MergedSegment,
    *,
    operation: str,
    leader_epoch: LeaderEpoch,
    stable_offset: Offset,
    registered: RegisteredProducers | None = None,
) -> LogChange | None:
    """Decide to put `merged` in the place of `inputs`, of one leadership and kind of timestamps.

    None if the log no longer has the inputs as they were read: then the file stays an orphan.
    `stable_offset` is the last stable offset, in an image that was taken before the table was read
    and whose leader epoch is `leader_epoch`. What is below it no fetch and no cut will change, so
    replicas may have other files for it. `registered`: as in `entries_without`.

    Raises:
        FencedLeaderEpochError, UnknownLeaderEpochError: The table is not fenced at this epoch.
    """
    check_fence(state, leader_epoch)
    if state.batches_between(merged.base_offset, merged.end_offset) != tuple(inputs):
        return None
    first, last = inputs[0], inputs[-1]
    span = (merged.base_offset, merged.end_offset, merged.chain_digest, merged.appended_at_ms)
    newest_ms = max(each.appended_at_ms for each in inputs)
    ensure(span == (first.base_offset, last.end_offset, last.chain_digest, newest_ms), merged)
    kinds = {(each.leader_epoch, each.has_append_time) for each in inputs}
    ensure(kinds == {(merged.leader_epoch, merged.has_append_time)}, merged)
    ensure(merged.end_offset <= stable_offset, "only what is stable has other files in replicas")
    check_new_names(state, merged.segments, leader_epoch=leader_epoch)
    return LogChange(
        operation=operation,
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
        merged=merged,
        producers=entries_without(state, inputs, registered),
    )


def set_compaction(
    state: ReplicaState, progress: CompactionProgress, *, leader_epoch: LeaderEpoch
) -> LogChange | None:
    """Decide to write how far a replica is compacted, where no segment changes; None: it says so.

    `progress` follows from that of `state`.

    Raises:
        FencedLeaderEpochError, UnknownLeaderEpochError: The table is not fenced at this epoch.
    """
    check_fence(state, leader_epoch)
    if progress == state.compaction:
        return None
    return LogChange(
        operation="compact",
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
        compaction=progress,
    )
