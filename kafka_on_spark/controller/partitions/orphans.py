"""When the leader epoch is raised so that orphans can be deleted.

A file of the current epoch that no log names may be of an append under way, and no clock can tell.
Under a new epoch nobody can commit it any more; an append that goes on stages it under a new name.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_on_spark.controller.partitions.partition_change import change_record
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.ids import BrokerId, LeaderEpoch, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOrphans:
    """Bytes of orphans in the folder of one replica.

    Attributes:
        key: The partition.
        broker_id: The replica.
        leader_epoch: The partition's when they were seen; they are named under it.
        size_bytes: Their bytes.
        are_many: They are a day old, and many for what the log has (`cleaning.are_many`).
    """

    key: PartitionKey
    broker_id: BrokerId
    leader_epoch: LeaderEpoch
    size_bytes: int
    are_many: bool = False


def raise_epochs_over_orphans(
    image: MetadataImage, seen: Iterable[SeenOrphans]
) -> ControllerResult[list[PartitionKey]]:
    """Decide a new leader epoch, with the same leader, where orphans exceed orphan.bytes.max.

    Or where they are many for a small log. Once for what was seen under one epoch. Where nobody
    leads, the next election raises it.
    """
    most: dict[PartitionKey, SeenOrphans] = {}
    for each in seen:
        known = most.get(each.key)
        if known is None or _measure(known) < _measure(each):
            most[each.key] = each
    records, raised = [], []
    for key, each in most.items():
        partition = image.partition(key)
        if partition is None or partition.leader is None:
            continue
        size_max = image.settings(key.topic_id).integer("orphan.bytes.max")
        is_over = each.size_bytes > size_max
        if partition.leader_epoch != each.leader_epoch or not (is_over or each.are_many):
            continue
        why = f"more than orphan.bytes.max {size_max}" if is_over else "a day old, and many for it"
        cause = (
            f"broker {each.broker_id}: {each.size_bytes} bytes of files of epoch"
            f" {each.leader_epoch} that no log names, {why}"
        )
        change = PartitionChange(leader=partition.leader)
        records.append(change_record(image, key, partition, change, cause))
        raised.append(key)
    return ControllerResult(records, raised)


def _measure(seen: SeenOrphans) -> tuple[bool, int]:
    return seen.are_many, seen.size_bytes
