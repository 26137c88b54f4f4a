"""Reads what a comparison of a follower's log with its leader's needs of merged segments' files.

Headers tell where two logs part, but inside a merged segment only its file keeps where batches
ended. Nearly always none need be read.
"""

from dataclasses import dataclass, replace
from functools import partial

from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.follower.truncation import follow, part_to_keep, unread_borders
from kafka_on_spark.log.merged_segment import Border
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.ports.replicas import SegmentStore
from kafka_on_spark.service.replicate.fetching.fetch_outcomes import (
    FollowerRefused,
    LeaderRefused,
    answer_of,
)

Borders = tuple[Border, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """Both logs, with the borders that were read of them."""

    follower: ReplicaState
    leader: ReplicaState


def read_to_compare(
    follower: ReplicaState,
    leader: ReplicaState,
    *,
    segments: SegmentStore,
    follower_address: ReplicaAddress,
    leader_address: ReplicaAddress,
    leader_epoch: LeaderEpoch,
) -> Compared | LeaderRefused | FollowerRefused:
    """Return both logs with all borders that tell up to where they are one."""
    compared = Compared(follower, leader)
    while True:
        found = answer_of(
            partial(unread_borders, compared.follower, compared.leader, leader_epoch),
            FollowerRefused,
        )
        if found is None:
            return compared
        if isinstance(found, FollowerRefused):
            return found
        if found.is_leaders:
            read = partial(segments.borders, leader_address, found.merged)
            borders: Borders | LeaderRefused = answer_of(read, LeaderRefused)
            if isinstance(borders, LeaderRefused):
                return borders
            known = compared.leader.with_borders(found.merged, borders)
            compared = replace(compared, leader=known)
        else:
            read = partial(segments.borders, follower_address, found.merged)
            own: Borders | FollowerRefused = answer_of(read, FollowerRefused)
            if isinstance(own, FollowerRefused):
                return own
            known = compared.follower.with_borders(found.merged, own)
            compared = replace(compared, follower=known)


def follow_by(
    segments: SegmentStore,
    address: ReplicaAddress,
    follower: ReplicaState,
    leader: ReplicaState,
    leader_epoch: LeaderEpoch,
    floor: Offset,
) -> LogChange | None:
    """Return the change by which a follower, at `address`, follows its leader.

    Where it cuts inside a merged segment, what is kept of that is written first.

    Raises: as `follow` and SegmentStore.rewrite.
    """
    cut = part_to_keep(follower, leader, leader_epoch, floor)
    kept = None
    if cut is not None:
        merged, end_offset = cut
        kept = segments.rewrite(
            address,
            address,
            (merged,),
            leader_epoch=leader_epoch,
            start_offset=merged.base_offset,
            end_offset=end_offset,
        )
    return follow(follower, leader, leader_epoch=leader_epoch, floor=floor, kept_part=kept)
