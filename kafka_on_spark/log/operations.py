"""Each operation on a replica's log, decided on one state of it.

An operation returns the LogChange to commit at the version after that state, or what it found
instead; after a conflict it is decided again on the newer state. Every operation refuses a leader
epoch below the fence (I13): an old leader or follower fails here, or by a conflict.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from kafka_on_spark.base.errors import (
    CorruptLogError,
    FencedLeaderEpochError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    ReplicaLostError,
    UnexpectedOffsetError,
)
from kafka_on_spark.base.ids import ChainDigest, LeaderEpoch, Offset, ensure
from kafka_on_spark.base.merge_tiers import FILES_A_CHANGE_MAX
from kafka_on_spark.log.batch import Batch, LogPart, MergedSegment, Segment, StagedBatch
from kafka_on_spark.log.compaction import NO_PROGRESS, CompactionProgress
from kafka_on_spark.log.producer_state import (
    AppendedBefore,
    RegisteredProducers,
    check_writer,
    entries_without,
    find_append,
    not_above,
    numbered,
    united,
)
from kafka_on_spark.log.state import (
    LogChange,
    ProducerEntries,
    ReplicaState,
    check_chain,
    check_leader_epoch,
)


def append(
    state: ReplicaState,
    staged: StagedBatch,
    *,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    expected_offset: Offset | None = None,
) -> LogChange | AppendedBefore:
    """Decide the append of `staged` by the leadership `leader_epoch`.

    Idempotence is decided here, on the state that the commit is conditional on (I11).

    Raises:
        FencedLeaderEpochError, UnknownLeaderEpochError: The table is not fenced at this epoch.
        And as `find_append`, `check_writer` and `check_end`.
    """
    check_leader_epoch(state.leader_epoch, leader_epoch)
    found = find_append(state, staged)
    if found is not None:
        return found
    check_named_under(staged.segments, leader_epoch)
    if staged.writer is not None:
        check_writer(state, staged.writer)
    if expected_offset is not None:
        check_end(state, expected_offset)
    segments = staged.segments
    if staged.is_log_append_time:
        time_us = now_ms * 1000
        segments = tuple(
            replace(each, timestamp_min_us=time_us, timestamp_max_us=time_us) for each in segments
        )
    batch = state.chained(
        Batch(
            base_offset=state.log_end_offset,
            record_count=staged.record_count,
            leader_epoch=leader_epoch,
            partition_count=staged.partition_count,
            producer=None if staged.producer is None else numbered(state, staged.producer),
            appended_at_ms=now_ms,
            segments=segments,
            has_append_time=staged.is_log_append_time,
        )
    )
    return replace(state.changed("append"), log_end_offset=batch.end_offset, adds=(batch,))


def append_fetched(
    state: ReplicaState,
    batches: Sequence[LogPart],
    *,
    leader_epoch: LeaderEpoch,
    leader_compaction: CompactionProgress = NO_PROGRESS,
    leader_producers: ProducerEntries | None = None,
    is_whole: bool = False,
) -> LogChange:
    """Decide a follower's append of whole `batches` taken from its leader.

    An empty log may begin with a batch that starts below its log start. The chain of the batches
    is computed from the log's own end: batches that do not compute are not taken, and the leader
    is at fault. Their files are added under names of this leadership, whatever the leader's (I26).
    A merged segment has no producers: what the leader knows of them, `leader_producers` as read
    with its log, is taken in the same commit. `is_whole`: with these batches the follower has all
    that its leader had at one version of its table, and nothing else: it is compacted as far.

    Raises:
        FencedLeaderEpochError, UnknownLeaderEpochError: The table is not fenced at this epoch.
        CorruptLogError: The batches do not continue the log, or their chain does not.
        KafkaStorageError: The log has one of their files already. It is no evidence against either.
    """
    check_leader_epoch(state.leader_epoch, leader_epoch)
    assert batches
    expected = state.log_end_offset
    if not state.batches and batches[0].base_offset < expected < batches[0].end_offset:
        expected = batches[0].base_offset
    last_epoch = state.batches[-1].leader_epoch if state.batches else 0
    for batch in batches:
        if batch.base_offset != expected or not last_epoch <= batch.leader_epoch <= leader_epoch:
            raise CorruptLogError(
                "fetched batches do not continue the log", end=expected, found=batch.base_offset
            )
        expected, last_epoch = batch.end_offset, batch.leader_epoch
    identity = state.identity
    check_chain(state.chain_digest, identity.topic_id, identity.partition, batches)
    producers = state.producers
    if leader_producers and any(isinstance(each, MergedSegment) for each in batches):
        producers = united(producers, leader_producers)
    adds = tuple(batch.named_under(leader_epoch) for batch in batches)
    files = [segment for batch in adds for segment in batch.segments]
    if not _are_new(state, files):
        raise KafkaStorageError(
            "the log has a file already that its leader's log names again: one of both took an"
            " append twice",
            end=state.log_end_offset,
        )
    compaction = state.compaction
    if leader_compaction != compaction:
        compaction = compaction.after_fetch(
            leader_compaction, is_first=not state.batches, is_whole=is_whole
        )
    change = state.changed("append_fetched", producers=producers, compaction=compaction)
    return replace(change, log_end_offset=expected, adds=adds)


def adopt(
    state: ReplicaState,
    *,
    leader_epoch: LeaderEpoch,
    truncate_to: Offset | None,
    floor: Offset,
    kept_part: MergedSegment | None = None,
) -> LogChange | None:
    """Decide to adopt a leadership: the fence and the truncation are one commit.

    A leader begins with it, without a truncation. None if the table is fenced at `leader_epoch`
    already: under one epoch nothing is ever cut. A cut below the log start leaves an empty log
    there (Source: UnifiedLog.truncateTo). `floor` is the high watermark for a replica that must
    have all committed records. `kept_part`: what a cut inside a merged segment leaves of it,
    rewritten under `leader_epoch`; so a cut falls only after an unclean election, or in a replica
    that need not be complete.

    Raises:
        FencedLeaderEpochError: The table is fenced above `leader_epoch`.
        ReplicaLostError: It would end below `floor`; the replica is bad (I14).
        CorruptLogError: The cut falls inside a batch, or elsewhere than `kept_part` ends.
    """
    check_not_above(state, leader_epoch)
    if state.leader_epoch == leader_epoch:
        return None
    end_offset = state.log_end_offset if truncate_to is None else truncate_to
    end_offset = min(end_offset, state.log_end_offset)
    if end_offset < floor:
        raise ReplicaLostError(
            "the replica lacks committed records", end=end_offset, high_watermark=floor
        )
    return replace(
        state.changed(
            "adopt",
            # What the log is cut of, or has not reached, must not count once it has grown again.
            producers=not_above(state.producers, end_offset),
            # Of a follower, what it lacks is compared with its leader: see `truncation.follow`.
            compaction=state.compaction.lowered_to(end_offset) if truncate_to is None else None,
        ),
        log_start_offset=min(state.log_start_offset, end_offset),
        log_end_offset=end_offset,
        leader_epoch=leader_epoch,
        cut_from=_cut_at(state, end_offset, kept_part),
        adds=() if kept_part is None else (kept_part,),
    )


def _cut_at(
    state: ReplicaState, end_offset: Offset, kept_part: MergedSegment | None
) -> Offset | None:
    if end_offset >= state.log_end_offset:
        return None
    if end_offset <= state.log_start_offset:
        # The start may lie in a batch: it goes whole. Below the start, the log is empty there.
        return state.batches[0].base_offset if state.batches else None
    place = state.batch_index_at(end_offset)
    assert place is not None, "it is below the end and not below the start"
    base_offset = state.batches[place].base_offset
    kept = (base_offset, base_offset)
    if kept_part is not None:
        kept = (kept_part.base_offset, kept_part.end_offset)
    if kept != (base_offset, end_offset):
        raise CorruptLogError("a cut inside a batch", base_offset=base_offset, cut=end_offset)
    return base_offset


def truncate_fully_and_start_at(
    state: ReplicaState,
    offset: Offset,
    *,
    leader_epoch: LeaderEpoch,
    producers: ProducerEntries,
    chain_before: ChainDigest,
) -> LogChange:
    """Decide a new start at `offset`: for a follower whose next records its leader has removed, or
    for a leader that was elected without records.

    `producers`: the entries that hold of the leader's log. `chain_before`: the leader's chain
    digest where its batch at `offset` begins; NO_CHAIN for a leader.
    """
    check_not_above(state, leader_epoch)
    return replace(
        state.changed("truncate_fully_and_start_at", producers=producers, compaction=NO_PROGRESS),
        log_start_offset=offset,
        log_end_offset=offset,
        leader_epoch=leader_epoch,
        cut_from=state.batches[0].base_offset if state.batches else None,
        chain_before=chain_before,
    )


def advance_log_start(
    state: ReplicaState, offset: Offset, registered: RegisteredProducers | None = None
) -> LogChange | None:
    """Decide to remove the batches wholly below `offset`; None: the log starts there.

    The offset was decided in the metadata log, at most the high watermark, so no epoch is checked.
    A batch that holds the offset stays whole (I16). If there are more files than one commit names,
    the first of them go, and the log starts behind these. `registered`: as in `entries_without`.
    """
    if offset <= state.log_start_offset:
        return None
    if offset > state.log_end_offset:
        raise OffsetOutOfRangeError(
            "log start above the log end", offset=offset, end=state.log_end_offset
        )
    below = [batch for batch in state.batches if batch.end_offset <= offset]
    counts = list(accumulate(len(batch.segments) for batch in below))
    removed = below[: max(1, bisect_right(counts, FILES_A_CHANGE_MAX))]
    if len(removed) < len(below):
        offset = removed[-1].end_offset
    producers = entries_without(state, removed, registered)
    return replace(
        state.changed("advance_log_start", producers=producers),
        log_start_offset=offset,
        drop_below=offset,
        chain_before=state.chain_kept_from(offset),
    )


def _are_new(state: ReplicaState, segments: Sequence[Segment]) -> bool:
    new = {each.file_name for each in segments}
    found = state.batches_with({each.uuid for each in segments})
    return new.isdisjoint(segment.file_name for batch in found for segment in batch.segments)


def check_named_under(segments: Sequence[Segment], leader_epoch: LeaderEpoch) -> None:
    """Check that files which are added are named under the fence.

    A path is added only while the table is fenced at the epoch in its name, and never again after
    the table removed it: a cleaner that is late then takes nothing that was added since (I26).
    """
    ensure(all(each.epoch_in_name == leader_epoch for each in segments), segments)


def check_end(state: ReplicaState, expected_offset: Offset) -> None:
    """Check that the log ends where a conditional append expects it to."""
    if expected_offset != state.log_end_offset:
        raise UnexpectedOffsetError(
            f"the log ends at {state.log_end_offset}, not at the expected {expected_offset}:"
            " read what was appended since, and decide again"
        )


def check_not_above(state: ReplicaState, leader_epoch: LeaderEpoch) -> None:
    if (state.leader_epoch or 0) > leader_epoch:
        raise FencedLeaderEpochError(
            "the replica has adopted a later leadership",
            fence=state.leader_epoch,
            leader_epoch=leader_epoch,
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
    compaction: CompactionProgress | None = None,
) -> LogChange | None:
    """Decide to put `merged` in the place of `inputs`, of one leadership and kind of timestamps.

    None if the log no longer has the inputs as they were read: then the file stays an orphan.
    `stable_offset` is the last stable offset, in an image that was taken before the table was read
    and whose leader epoch is `leader_epoch`. What is below it no fetch and no cut will change, so
    replicas may have other files for it. `registered`: as in `entries_without`. Only compaction
    removes records, and says how far it is.
    """
    in_inputs = sum(each.record_count for each in inputs)
    ensure(compaction is not None or merged.record_count == in_inputs, "a merge keeps all records")
    check_leader_epoch(state.leader_epoch, leader_epoch)
    if state.batches_between(merged.base_offset, merged.end_offset) != tuple(inputs):
        return None
    first, last = inputs[0], inputs[-1]
    span = (merged.base_offset, merged.end_offset, merged.chain_digest, merged.appended_at_ms)
    newest_ms = max(each.appended_at_ms for each in inputs)
    ensure(span == (first.base_offset, last.end_offset, last.chain_digest, newest_ms), merged)
    kinds = {(each.leader_epoch, each.has_append_time) for each in inputs}
    ensure(kinds == {(merged.leader_epoch, merged.has_append_time)}, merged)
    ensure(merged.end_offset <= stable_offset, "only what is stable has other files in replicas")
    check_named_under(merged.segments, leader_epoch)
    ensure(_are_new(state, merged.segments), merged)
    producers = entries_without(state, inputs, registered)
    change = state.changed(operation, producers=producers, compaction=compaction)
    return replace(change, merged=merged)


def set_compaction(
    state: ReplicaState, progress: CompactionProgress, *, leader_epoch: LeaderEpoch
) -> LogChange | None:
    """Decide to write how far a replica is compacted, where no segment changes; None: it does."""
    check_leader_epoch(state.leader_epoch, leader_epoch)
    if progress == state.compaction:
        return None
    return state.changed("compact", compaction=progress)
