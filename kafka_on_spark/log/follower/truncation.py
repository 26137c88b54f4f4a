"""Truncation: where a follower's log diverges from its leader's; no other rule ever cuts a log.

A log is never cut by the high watermark: a stale one has lost committed records (KIP-101), and the
true one keeps records that the leader does not have. One question for an epoch's end is not enough
after two fast failovers (KIP-279), so the follower asks until both sides name the same epoch. Then
it compares chains: where a table was rolled back, two logs may diverge inside an epoch, and epochs
alone would keep them apart for ever.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kafka_on_spark.errors import ReplicaLostError, UnknownLeaderEpochError
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.compaction.progress import lacks_replaced_records
from kafka_on_spark.log.epochs import EpochEnd, end_offset_for, latest_epoch_with_records
from kafka_on_spark.log.producers import not_above, united
from kafka_on_spark.log.state import LogChange, ReplicaState

AskLeader = Callable[[LeaderEpoch], EpochEnd | None]


@dataclass(frozen=True, slots=True)
class TruncationStep:
    """What one answer of the leader says about the follower's log.

    Attributes:
        truncate_to: The logs share nothing from this offset on.
        is_complete: They share everything below it; if not, the follower asks about an older epoch.
    """

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


def truncation_steps(follower: ReplicaState, ask_leader: AskLeader) -> list[TruncationStep]:
    """Return what each answer leaves of `follower`; the last one is complete.

    `ask_leader` is the leader's `end_offset_for`. Empty for a log without records, which has
    nothing to cut. Terminates: each question names a lower epoch than the one before.

    Raises:
        UnknownLeaderEpochError: The leader has not heard of the follower's epoch.
    """
    steps: list[TruncationStep] = []
    epoch = latest_epoch_with_records(follower)
    while epoch is not None:
        answer = ask_leader(epoch)
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


def divergence_offset(follower: ReplicaState, ask_leader: AskLeader) -> Offset:
    """Return the offset up to which `follower` shares its leader's log, its log start at least.

    Raises:
        UnknownLeaderEpochError: The leader has not heard of the follower's epoch.
    """
    steps = truncation_steps(follower, ask_leader)
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
        end = follower.log_end_offset  # may lie inside a batch of the leader's
        is_shared = leader.chain_at_batch_of(end) == follower.chain_before
        return end if is_shared and end <= leader.log_end_offset else None
    for offset, digest in follower.borders_down_from(end_offset):
        if leader.chain_at(offset) == digest:
            return offset
    return None


def _check_whole(follower: ReplicaState, leader: ReplicaState, shared_end: Offset | None) -> None:
    """Check that the follower lacks no record that is the last of its key in what both share.

    Raises:
        ReplicaLostError: It does, since what had replaced it is not in the leader's log.
    """
    if not follower.batches or follower.leader_epoch is None:
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


def follow(
    follower: ReplicaState, leader: ReplicaState, *, leader_epoch: LeaderEpoch, floor: Offset
) -> LogChange | None:
    """Decide, in one commit, how a follower's log moves to the leadership that `leader` has begun.

    It keeps what it shares with the leader, by epochs and by chain. If that ends below the
    leader's log start, the follower starts where the leader does, with the leader's chain and
    producers: a deposed leader's batch below it, if kept, would answer a retry of an append that
    was never committed. Its own producers it keeps as far as both logs are the same. None if it
    follows already, and its next records are still there.

    Raises:
        FencedLeaderEpochError: The table is fenced above `leader_epoch`.
        ReplicaLostError: It would end below `floor` (I14), or lack records that were compacted away
            (I27); the replica is bad.
        UnknownLeaderEpochError: The leader has not heard of the follower's epoch.
    """
    start = leader.log_start_offset
    shared_end: Offset | None = follower.log_end_offset
    if not follower.is_fenced_at(leader_epoch):  # if it is, it was compared when it began to follow
        by_epochs = divergence_offset(follower, lambda epoch: end_offset_for(leader, epoch))
        shared_end = shared_border(follower, leader, by_epochs)
        _check_whole(follower, leader, shared_end)
    if shared_end is None and floor > 0:
        raise ReplicaLostError(
            "the replica shares nothing with its leader's log", high_watermark=floor
        )
    if shared_end is None or floor <= shared_end < start:
        return operations.truncate_fully_and_start_at(
            follower,
            start,
            leader_epoch=leader_epoch,
            producers=united(
                not_above(follower.producers, shared_end or Offset(0)), leader.producers
            ),
            chain_before=leader.chain_at_batch_of(start) or leader.chain_before,
        )
    return operations.adopt(
        follower, leader_epoch=leader_epoch, truncate_to=shared_end, floor=floor
    )
