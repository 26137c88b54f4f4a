"""Where a follower's log parts from its leader's: the only rule by which a log is ever cut.

Never by high watermark. Cutting to a stale one lost committed records, and cutting to the true
one keeps records that the leader does not share (FAULTS b.1, b.2). One question is not enough
after two fast failovers (KIP-279), so the follower asks until both name the same epoch.
"""

from collections.abc import Callable

from kafka_on_spark.errors import UnknownLeaderEpochError
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.epochs import EpochEnd, end_offset_for, latest_epoch_with_records
from kafka_on_spark.log.state import ReplicaState

AskLeader = Callable[[LeaderEpoch], EpochEnd | None]


def divergence_offset(follower: ReplicaState, ask_leader: AskLeader) -> Offset:
    """Return the offset up to which `follower` shares its leader's log.

    `ask_leader` is the leader's `end_offset_for`. Terminates: each question names a lower
    epoch than the one before.

    Raises:
        UnknownLeaderEpochError: The leader has not heard of the follower's epoch.
    """
    epoch = latest_epoch_with_records(follower)
    if epoch is None:
        return follower.log_end_offset
    end_offset = follower.log_end_offset
    while True:
        answer = ask_leader(epoch)
        if answer is None:
            raise UnknownLeaderEpochError("the leader is behind its follower", epoch=epoch)
        if answer.leader_epoch == epoch:
            return max(min(answer.end_offset, end_offset), follower.log_start_offset)
        mine = _older_epoch(follower, answer.leader_epoch)
        if mine is None:
            return follower.log_start_offset
        assert mine.leader_epoch < epoch, (mine, epoch)
        epoch, end_offset = mine.leader_epoch, mine.end_offset


def _older_epoch(follower: ReplicaState, leader_epoch: LeaderEpoch) -> EpochEnd | None:
    """Return what the follower has of `leader_epoch` or the next older one it has records of."""
    mine = end_offset_for(follower, leader_epoch)
    has_it = mine is not None and any(
        batch.leader_epoch == mine.leader_epoch for batch in follower.batches
    )
    return mine if has_it else None
