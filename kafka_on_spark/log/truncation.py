"""Where a follower's log parts from its leader's: the only rule by which a log is ever cut.

Never by high watermark. Cutting to a stale one lost committed records, and cutting to the true
one keeps records that the leader does not share (FAULTS b.1, b.2). One question is not enough
after two fast failovers (KIP-279), so the follower asks until both name the same epoch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafka_on_spark.errors import UnknownLeaderEpochError
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.epochs import EpochEnd, end_offset_for, latest_epoch_with_records
from kafka_on_spark.log.state import ReplicaState

AskLeader = Callable[[LeaderEpoch], EpochEnd | None]


@dataclass(frozen=True, slots=True)
class TruncationStep:
    """What one answer of the leader's says.

    Attributes:
        offset: The logs differ from here on, or earlier.
        is_complete: Not earlier; else the leader must be asked about an older epoch.
    """

    offset: Offset
    is_complete: bool


def truncation_step(answer: EpochEnd, mine: EpochEnd, log_end_offset: Offset) -> TruncationStep:
    """Decide on the leader's answer, and on what the follower has of the epoch it names.

    `mine` is that epoch's end here, or that of the next older one. Source:
    AbstractFetcherThread.getOffsetTruncationState (KIP-279).
    """
    if mine.leader_epoch == answer.leader_epoch:
        return TruncationStep(min(mine.end_offset, answer.end_offset, log_end_offset), True)
    return TruncationStep(min(mine.end_offset, log_end_offset), False)


def divergence_offset(follower: ReplicaState, ask_leader: AskLeader) -> Offset:
    """Return the offset up to which `follower` shares its leader's log.

    `ask_leader` is the leader's `end_offset_for`.

    Raises:
        UnknownLeaderEpochError: The leader has not heard of the follower's epoch.
    """
    *_, offset = (follower.log_end_offset, *divergence_steps(follower, ask_leader))
    return offset


def divergence_steps(follower: ReplicaState, ask_leader: AskLeader) -> Iterator[Offset]:
    """Yield how far the logs can agree at most, after each question; the last is how far they do.

    Terminates: each question names a lower epoch than the one before. A walk that ends below
    the follower's first epoch shares nothing with the leader.

    Raises:
        UnknownLeaderEpochError: The leader has not heard of the follower's epoch.
    """
    epoch = latest_epoch_with_records(follower)
    end_offset = follower.log_end_offset
    while epoch is not None:
        answer = ask_leader(epoch)
        if answer is None:
            raise UnknownLeaderEpochError("the leader is behind its follower", epoch=epoch)
        mine = _older_epoch(follower, answer.leader_epoch)
        if mine is None:
            yield follower.log_start_offset
            return
        step = truncation_step(answer, mine, end_offset)
        end_offset = max(step.offset, follower.log_start_offset)
        yield end_offset
        if step.is_complete:
            return
        assert mine.leader_epoch < epoch, (mine, epoch)
        epoch = mine.leader_epoch


def _older_epoch(follower: ReplicaState, leader_epoch: LeaderEpoch) -> EpochEnd | None:
    """Return what the follower has of `leader_epoch` or the next older one it has records of."""
    mine = end_offset_for(follower, leader_epoch)
    has_it = mine is not None and any(
        batch.leader_epoch == mine.leader_epoch for batch in follower.batches
    )
    return mine if has_it else None
