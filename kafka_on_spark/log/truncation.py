"""Where a follower's log parts from its leader's: the only rule by which a log is ever cut.

Never by high watermark. Cutting to a stale one lost committed records, and cutting to the true
one keeps records that the leader does not share (FAULTS b.1, b.2). One question is not enough
after two fast failovers (KIP-279), so the follower asks until both name the same epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kafka_on_spark.errors import UnknownLeaderEpochError
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.epochs import EpochEnd, end_offset_for, latest_epoch_with_records
from kafka_on_spark.log.state import LogChange, ReplicaState

AskLeader = Callable[[LeaderEpoch], EpochEnd | None]


@dataclass(frozen=True, slots=True)
class TruncationStep:
    """What one answer of the leader says about the follower's log.

    Attributes:
        truncate_to: Nothing from this offset on is shared.
        is_complete: Everything below it is; otherwise the follower asks about an older epoch.
    """

    truncate_to: Offset
    is_complete: bool


def truncation_step(answer: EpochEnd, mine: EpochEnd, log_end_offset: Offset) -> TruncationStep:
    """Return what the leader's `answer` leaves of a log that ends at `log_end_offset`.

    `mine`: where the follower's own log ends the epoch of the answer, or the next older one it
    has. The same epoch on both sides: they share it up to the smaller end. An epoch that the
    follower never had: nothing after its own older one is shared, and perhaps not all of that
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


def follow(
    follower: ReplicaState, leader: ReplicaState, *, leader_epoch: LeaderEpoch, floor: Offset
) -> LogChange | None:
    """Decide, in one commit, how a follower's log moves to the leadership that `leader` has begun.

    It keeps what it shares with the leader. What lies below the leader's log start can't be
    compared any more: if nothing above it is shared, the follower starts where the leader does,
    with the leader's counters. Kept, a deposed leader's batch down there would answer a retry of
    an append that was never committed. None if it follows already, and lacks nothing that is gone.

    Raises:
        FencedLeaderEpochError: The table is fenced above `leader_epoch`.
        ReplicaLostError: It would end below `floor`; the replica is bad (I14).
        UnknownLeaderEpochError: The leader has not heard of the follower's epoch.
    """
    start = leader.log_start_offset
    if follower.is_fenced_at(leader_epoch):
        shared_end = follower.log_end_offset
        has_unknown = False  # it was compared when it began to follow
    else:
        shared_end = divergence_offset(follower, lambda epoch: end_offset_for(leader, epoch))
        has_unknown = follower.log_start_offset < shared_end == start
    if shared_end >= floor and (shared_end < start or has_unknown):
        return operations.truncate_fully_and_start_at(
            follower, start, leader_epoch=leader_epoch, producers=dict(leader.producers)
        )
    return operations.adopt(
        follower, leader_epoch=leader_epoch, truncate_to=shared_end, floor=floor
    )
