"""Checks of a request's leader epoch, and of the replica that it asks (KIP-320).

The order of the checks is part of the protocol: a request with a wrong epoch is refused for that
before anything else, because its sender must refresh first. Source: Partition.getLocalLog.
"""

from kafka_on_spark.base.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch
from kafka_on_spark.metadata.partition import PartitionRegistration


def check_leader_epoch(known: LeaderEpoch | None, asked: LeaderEpoch | None) -> None:
    """Check the leader epoch of a request against the one `known` here.

    A request without one is not checked: a plain consumer has none.

    Raises:
        FencedLeaderEpochError: The request's is older: its sender was deposed, or must refresh.
        UnknownLeaderEpochError: The request's is newer: this side must catch up.
    """
    if asked is None or asked == known:
        return
    if known is not None and asked < known:
        raise FencedLeaderEpochError(
            "a later leadership has been adopted", known=known, leader_epoch=asked
        )
    raise UnknownLeaderEpochError(
        "this leadership has not been adopted", known=known, leader_epoch=asked
    )


def check_request(
    partition: PartitionRegistration | None,
    broker_id: BrokerId,
    *,
    leader_epoch: LeaderEpoch | None,
    only_leader: bool,
    fetched_by: BrokerId | None = None,
) -> None:
    """Check a request about `partition` that names the replica on `broker_id`.

    `only_leader`: the replica must be the leader's. `fetched_by`: the follower that asks, which
    must be assigned.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition, or no replica of it there.
        FencedLeaderEpochError, UnknownLeaderEpochError: As `check_leader_epoch`.
        NotLeaderOrFollowerError: The replica does not lead.
    """
    if partition is None or broker_id not in partition.replicas:
        raise UnknownTopicOrPartitionError(f"broker {broker_id} has no replica of the partition")
    check_leader_epoch(partition.leader_epoch, leader_epoch)
    if only_leader and partition.leader != broker_id:
        raise NotLeaderOrFollowerError(
            f"broker {broker_id} does not lead the partition", leader=partition.leader
        )
    if fetched_by is not None and fetched_by not in partition.replicas:
        _refuse_unassigned(fetched_by, leader_epoch)


def _refuse_unassigned(fetched_by: BrokerId, leader_epoch: LeaderEpoch | None) -> None:
    """Refuse a follower that is not assigned.

    A follower that knows the current epoch may know an assignment that this side does not, which
    then must catch up. Source: Partition.followerReplicaOrThrow (KAFKA-14097).
    """
    if leader_epoch is not None:
        raise UnknownLeaderEpochError(
            f"broker {fetched_by} is not assigned, as far as is known here",
            leader_epoch=leader_epoch,
        )
    raise NotLeaderOrFollowerError(f"broker {fetched_by} is not assigned to the partition")
