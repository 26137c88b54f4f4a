"""Where leader epochs begin and end in a log, and what a follower keeps of its own and takes.

Kafka keeps the epochs in a checkpoint file; here they are computed from the batch headers. The
fence counts as the last epoch even before it has records: a leader that adopted epoch 7 and wrote
nothing still ends epoch 6 where its log ends (KIP-101, KIP-279; Source: LeaderEpochFileCache).

No other rule ever cuts a log: not the high watermark, nor epochs alone (design note 4).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import (
    OffsetOutOfRangeError,
    ReplicaLostError,
    UnknownLeaderEpochError,
)
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.base.merge_tiers import FILES_A_CHANGE_MAX
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import SEGMENTS_A_BATCH_MAX, LogPart, MergedSegment
from kafka_on_spark.log.compaction import has_missed_tombstones, lacks_replaced_records
from kafka_on_spark.log.producer_state import not_above, united
from kafka_on_spark.log.state import LogChange, ReplicaState

_LEADER_EPOCH: Final = attrgetter("leader_epoch")


class EpochEntry(NamedTuple):
    """A leadership's first offset in a log."""

    leader_epoch: LeaderEpoch
    start_offset: Offset


EpochHistory = tuple[EpochEntry, ...]
"""The leaderships of one log, oldest first: epochs and start offsets both rise."""


class EpochEnd(NamedTuple):
    """Where the largest epoch that is not above the one asked for ends in a log."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


def epoch_history(state: ReplicaState) -> EpochHistory:
    """Return the leaderships of `state`; the first begins at the log start."""
    entries: list[EpochEntry] = []
    batches, place = state.batches, 0
    while place < len(batches):  # from one leadership to the next: a log has few
        first = batches[place]
        start = max(first.base_offset, state.log_start_offset)
        entries.append(EpochEntry(first.leader_epoch, start))
        place = bisect_right(batches, first.leader_epoch, place, key=_LEADER_EPOCH)
    fence = state.leader_epoch
    if fence is not None and (not entries or entries[-1].leader_epoch < fence):
        entries.append(EpochEntry(fence, state.log_end_offset))
    return tuple(entries)


def end_offset_for(state: ReplicaState, leader_epoch: LeaderEpoch | None) -> EpochEnd | None:
    return epoch_end(epoch_history(state), leader_epoch, state.log_end_offset)


def epoch_end(
    history: EpochHistory, leader_epoch: LeaderEpoch | None, log_end_offset: Offset
) -> EpochEnd | None:
    """Return where `leader_epoch`, or the largest epoch below it, ends.

    The latest epoch ends at the log end. An epoch older than all is returned itself, with the
    start of the first. An epoch above all, or none, has no end: None.
    """
    if leader_epoch is None or not history or leader_epoch > history[-1].leader_epoch:
        return None
    if leader_epoch == history[-1].leader_epoch:
        return EpochEnd(leader_epoch, log_end_offset)
    above = bisect_right(history, leader_epoch, key=_LEADER_EPOCH)
    own = history[above - 1].leader_epoch if above else leader_epoch
    return EpochEnd(own, history[above].start_offset)


def latest_epoch_with_records(state: ReplicaState) -> LeaderEpoch | None:
    return state.batches[-1].leader_epoch if state.batches else None


def check_fetch(
    state: ReplicaState, fetch_offset: Offset, *, last_fetched_epoch: LeaderEpoch | None = None
) -> EpochEnd | None:
    """Check a fetch from `fetch_offset`; return where the logs diverge, or None if they do not.

    `last_fetched_epoch`: of the fetcher's last record; None: the fetcher names none, so only the
    range is checked. Logs that diverge are no error: the fetcher must cut, and may have a larger
    end than this log. Source: Partition.readRecords.

    Raises:
        OffsetOutOfRangeError: The offset is below the log start or above the log end, or the
            last fetched epoch is above all that this log knows.
    """
    if last_fetched_epoch is not None:
        end = end_offset_for(state, last_fetched_epoch)
        if end is None:
            raise OffsetOutOfRangeError(
                "the last fetched epoch is above the log's", last_fetched_epoch=last_fetched_epoch
            )
        is_kept = fetch_offset >= state.log_start_offset
        if is_kept and (end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset):
            return end
    # The log end itself is in range, and empty.
    if not state.log_start_offset <= fetch_offset <= state.log_end_offset:
        side = "below the log start" if fetch_offset < state.log_start_offset else "above the end"
        raise OffsetOutOfRangeError(
            f"offset {fetch_offset} is {side} of the log",
            start=state.log_start_offset,
            end=state.log_end_offset,
        )
    return None


class TruncationStep(NamedTuple):
    """What one answer of the leader says about the follower's log: they share nothing from
    `truncate_to` on, and all below it if it is complete; if not, the follower asks about an older
    epoch."""

    truncate_to: Offset
    is_complete: bool


def truncation_step(answer: EpochEnd, mine: EpochEnd, log_end_offset: Offset) -> TruncationStep:
    """Return what the leader's `answer` leaves of a log that ends at `log_end_offset`.

    `mine`: where the follower's own log ends the epoch of the answer, or the next older one that it
    has. If both sides have the same epoch, they share it up to the smaller end. If the follower
    never had the epoch, they share nothing after its older one, and perhaps not all of that
    (Source: AbstractFetcherThread.getOffsetTruncationState).
    """
    end_offset = min(mine.end_offset, log_end_offset)
    if mine.leader_epoch != answer.leader_epoch:
        return TruncationStep(end_offset, is_complete=False)
    return TruncationStep(min(end_offset, answer.end_offset), is_complete=True)


def truncation_steps(follower: ReplicaState, leader: ReplicaState) -> list[TruncationStep]:
    """Return what each answer of `leader` leaves of `follower`; the last one is complete.

    Empty for a log without records, which has nothing to cut. Terminates: each question names a
    lower epoch than the one before.
    """
    steps: list[TruncationStep] = []
    epoch = latest_epoch_with_records(follower)
    while epoch is not None:
        answer = end_offset_for(leader, epoch)
        if answer is None:
            raise UnknownLeaderEpochError("the leader is behind its follower", epoch=epoch)
        mine = end_offset_for(follower, answer.leader_epoch)
        assert mine is not None, (answer, epoch)  # its latest epoch is not below the answer's
        steps.append(truncation_step(answer, mine, follower.log_end_offset))
        if steps[-1].is_complete:
            break
        assert mine.leader_epoch < epoch, (mine, epoch)
        epoch = mine.leader_epoch
    return steps


def divergence_offset(follower: ReplicaState, leader: ReplicaState) -> Offset:
    """Return up to where both are one log by their epochs, the follower's log start at least."""
    steps = truncation_steps(follower, leader)
    if not steps:
        return follower.log_end_offset
    return max(steps[-1].truncate_to, follower.log_start_offset)


def shared_border(
    follower: ReplicaState, leader: ReplicaState, end_offset: Offset
) -> Offset | None:
    """Return the highest border, at or below `end_offset`, up to which both are the same log.

    None if the chains show none that both still have: then no record is known to be shared.
    """
    if not follower.batches:
        is_shared = fetch_start(follower, leader) is not None
        return follower.log_end_offset if is_shared else None
    for offset, digest in follower.borders_down_from(end_offset):
        if leader.chain_at(offset) == digest:
            return offset
    return None


def _check_whole(follower: ReplicaState, leader: ReplicaState, shared_end: Offset | None) -> None:
    """Check that the follower lacks no record that is the last of its key in what both share."""
    is_compacted = follower.batches and follower.compaction.compacted_below > 0
    if not is_compacted or follower.leader_epoch is None:
        return
    end = shared_end or Offset(0)
    if shared_end == follower.log_end_offset:
        answer = end_offset_for(leader, follower.leader_epoch)
        end = end if answer is None else max(end, answer.end_offset)
    if lacks_replaced_records(follower.compaction, end):
        raise ReplicaLostError(
            "the replica lacks records that compaction has replaced by others, which its leader"
            " does not have",
            compacted_below=follower.compaction.compacted_below,
            shared_below=end,
        )


def fetch_start(follower: ReplicaState, leader: ReplicaState) -> Offset | None:
    """Return from where a follower takes its leader's log; None: it is another log than its own.

    That is its end, where both have the same chain digest: both digests were computed when the
    tables were read, so the logs are the same below. An emptied log may end inside a batch, which
    it takes as a whole: then it is where the batch begins.
    """
    end = follower.log_end_offset
    if not leader.log_start_offset <= end <= leader.log_end_offset:
        return None
    place = None if follower.batches else leader.batch_index_at(end)
    lowest = end if place is None else leader.batches[place].base_offset
    for offset, digest in leader.borders_down_from(end):
        if offset < lowest:
            break
        if digest == follower.chain_digest:
            return offset
    return None


class UnreadBorders(NamedTuple):
    """Borders that a comparison of two logs needs, in the file of a merged segment, which is the
    leader's or the follower's."""

    merged: MergedSegment
    is_leaders: bool


def unread_borders(
    follower: ReplicaState, leader: ReplicaState, leader_epoch: LeaderEpoch
) -> UnreadBorders | None:
    """Return the next borders to read before `follow` can tell where the logs part; None: none.

    A follower that is fenced has no more to compare than its end. The borders of another are
    compared downwards to the first that both have: what lies inside merged segments above that is
    in their files. Nearly always the first border is it.
    """
    end = follower.log_end_offset
    if follower.leader_epoch == leader_epoch or not follower.batches:
        return _unread(leader, end, is_leaders=True)
    end = divergence_offset(follower, leader)
    unread = _unread(follower, end, is_leaders=False)
    for offset, digest in follower.borders_down_from(end):
        unread = unread or _unread(leader, offset, is_leaders=True)
        if unread is not None or leader.chain_at(offset) == digest:
            return unread
        # What ends here is not shared as a whole, but what is inside may be in part.
        unread = _unread(follower, Offset(offset - 1), is_leaders=False)
    return unread


def _unread(state: ReplicaState, offset: Offset, *, is_leaders: bool) -> UnreadBorders | None:
    merged = state.merged_over(offset)
    if merged is None or merged.borders is not None:
        return None
    return UnreadBorders(merged, is_leaders)


def shared_end(
    follower: ReplicaState, leader: ReplicaState, leader_epoch: LeaderEpoch
) -> Offset | None:
    """Return up to where a follower keeps its log when it moves to a leadership; None: nowhere.

    All borders that `unread_borders` names have been read.
    """
    if follower.leader_epoch == leader_epoch:  # it was compared when it began to follow
        return follower.log_end_offset
    return shared_border(follower, leader, divergence_offset(follower, leader))


def part_to_keep(
    follower: ReplicaState, leader: ReplicaState, leader_epoch: LeaderEpoch, floor: Offset
) -> tuple[MergedSegment, Offset] | None:
    """Return the follower's merged segment inside which `follow` will cut, and where.

    What is kept of it is written anew before the cut. None: the cut falls elsewhere, or none does.
    """
    shared = shared_end(follower, leader, leader_epoch)
    if shared is None or shared < max(floor, leader.log_start_offset):
        return None
    merged = follower.merged_over(shared) if shared > follower.log_start_offset else None
    return None if merged is None else (merged, shared)


def follow(
    follower: ReplicaState,
    leader: ReplicaState,
    *,
    leader_epoch: LeaderEpoch,
    floor: Offset,
    kept_part: MergedSegment | None = None,
) -> LogChange | None:
    """Decide, in one commit, how a follower's log moves to the leadership that `leader` has begun.

    It keeps what it shares with the leader, by epochs and by chain. If that ends below the
    leader's log start, the follower starts where the leader does, with the leader's chain and
    producers: a deposed leader's batch below it, if kept, would answer a retry of an append that
    was never committed. Its own producers it keeps as far as both logs are the same. None if it
    follows already, and its next records are still there.

    `kept_part`: what is kept of a merged segment of the follower's, rewritten, if the logs part
    inside one.

    Raises:
        FencedLeaderEpochError: The table is fenced above `leader_epoch`.
        ReplicaLostError: It would end below `floor` (I14), lack records that were compacted away
            (I27), or give up more files than one commit can name; the replica is made again.
        UnknownLeaderEpochError: The leader does not know the follower's epoch.
    """
    start = leader.log_start_offset
    shared = shared_end(follower, leader, leader_epoch)
    if follower.leader_epoch != leader_epoch:
        _check_whole(follower, leader, shared)
    if shared is None and floor > 0:
        raise ReplicaLostError(
            "the replica shares nothing with its leader's log", high_watermark=floor
        )
    change: LogChange | None
    if shared is None or floor <= shared < start:
        change = operations.truncate_fully_and_start_at(
            follower,
            start,
            leader_epoch=leader_epoch,
            producers=united(not_above(follower.producers, shared or Offset(0)), leader.producers),
            chain_before=leader.chain_kept_from(start),
        )
    else:
        change = operations.adopt(
            follower,
            leader_epoch=leader_epoch,
            truncate_to=shared,
            floor=floor,
            kept_part=kept_part,
        )
    if change is not None and are_too_many_to_cut(follower.removed_by(change)):
        raise ReplicaLostError("the replica would give up more files than one commit can name")
    return change


def are_too_many_to_cut(parts: Iterable[LogPart]) -> bool:
    """Return whether a follower that gives up all of `parts` is lost: their files are more than one
    commit can name.

    Fence and cut are one commit, so the rest of a larger cut can't follow in another one.
    """
    return sum(len(part.segments) for part in parts) > SEGMENTS_A_BATCH_MAX


def check_tombstones(follower: ReplicaState, leader: ReplicaState) -> None:
    """Check that a follower has seen every tombstone that its leader has removed (I27).

    Raises:
        ReplicaLostError: It may hold what one of them has deleted. It is made again.
    """
    end, seen = follower.log_end_offset, leader.compaction
    is_first = not follower.batches
    if has_missed_tombstones(follower.compaction, end, seen, is_first=is_first):
        raise ReplicaLostError(
            "the replica is behind tombstones that its leader has removed",
            end=end,
            tombstones_below=seen.tombstones_below,
        )


def becomes_a_copy(follower: ReplicaState, taken: Sequence[LogPart], leader: ReplicaState) -> bool:
    """Return whether a follower that takes the last parts of its leader's log, `taken`, has the
    same files then, and no other, and is not compacted further than its leader says to be.

    Several fetches may have brought them, and what its leader did meanwhile shows in the files.
    It is asked only where it matters, for a log may have thousands.
    """
    own, seen = follower.compaction, leader.compaction
    behind = leader.batches[: -len(taken)]
    return (
        own.finished_below <= seen.finished_below
        and own.tombstones_below <= seen.tombstones_below
        and own.compacted_below <= seen.compacted_below
        and taken[-1] is leader.batches[-1]
        and len(behind) == len(follower.batches)
        # The epochs in their files' names may differ.
        and all(
            theirs.named_under(mine.segments[0].epoch_in_name) == mine
            for mine, theirs in zip(follower.batches, behind, strict=True)
        )
    )


def first_batches(batches: Sequence[LogPart], bytes_max: int) -> list[LogPart]:
    """Return whole batches from the first on, at most `bytes_max` in all, and no more files than
    one commit names, but one at least.

    Source: replica.fetch.max.bytes (KIP-74).
    """
    taken: list[LogPart] = []
    size, file_count = 0, 0
    for batch in batches:
        size += batch.size_bytes
        file_count += len(batch.segments)
        if taken and (size > bytes_max or file_count > FILES_A_CHANGE_MAX):
            break
        taken.append(batch)
    return taken
