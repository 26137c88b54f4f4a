"""Having an append's files in the folder of whoever leads now."""

from collections.abc import Sequence

from kafka_on_spark.errors import (
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.ids import LeaderEpoch
from kafka_on_spark.log.batch import Segment, StagedBatch
from kafka_on_spark.ports import ReplicaAddress, SegmentStore
from kafka_on_spark.service.append_parts import StagedPartition


def restage(
    segments: SegmentStore,
    part: StagedPartition,
    leader: ReplicaAddress,
    leader_epoch: LeaderEpoch,
) -> StagedBatch:
    """Have the files in the leader's folder, under names of its epoch (DESIGN §2).

    Raises:
        KafkaStorageError: No root has them that answers.
    """
    is_there = any(each.replica_uuid == leader.replica_uuid for each in part.holders)
    files = part.staged.segments
    if is_there and all(each.epoch_in_name == leader_epoch for each in files):
        return part.staged
    renamed = part.staged.renamed(leader_epoch)
    names = [each.path for each in renamed.segments]
    _copy_from_any(segments, part.holders, leader, files, names)
    return renamed


def _copy_from_any(
    segments: SegmentStore,
    holders: Sequence[ReplicaAddress],
    leader: ReplicaAddress,
    files: Sequence[Segment],
    names: Sequence[str],
) -> None:
    failure: KafkaOnSparkError = KafkaStorageError("no root has the files of this append")
    for holder in holders:
        try:
            segments.copy(holder, leader, files, names)
        except (KafkaStorageError, CorruptLogError) as error:
            failure = error
        else:
            return
    kind = type(failure) if isinstance(failure, RootAccessDeniedError) else KafkaStorageError
    raise kind(str(failure)) from failure
