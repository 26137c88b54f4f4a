"""When the leader epoch is raised so that orphans can be deleted.

A file of the current epoch that no log names may be of an append under way, and no clock can tell.
Under a new epoch nobody can commit it any more (I26); an append that goes on stages it anew.
"""

from collections.abc import Iterable

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, PartitionKey
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import PartitionChangeRecord
from kafka_on_spark.metadata.result import ControllerResult

SeenOrphans = tuple[PartitionKey, BrokerId, LeaderEpoch, int]
"""Bytes in a replica's folder that no log names, under the leader epoch of when they were seen."""


def raise_epochs_over_orphans(
    image: MetadataImage, seen: Iterable[SeenOrphans]
) -> ControllerResult[list[PartitionKey]]:
    """Decide a new epoch, with the same leader, where orphans exceed orphan.bytes.max: once for
    what was seen under one epoch. Where nobody leads, the next election raises it."""
    records: dict[PartitionKey, PartitionChangeRecord] = {}
    for key, broker_id, epoch, size_bytes in seen:
        partition = image.partition(key)
        if partition is None or partition.leader is None or partition.leader_epoch != epoch:
            continue
        size_max = image.settings(key.topic_id).integer("orphan.bytes.max")
        if size_bytes > size_max:
            cause = f"broker {broker_id}: {size_bytes} bytes of files of epoch {epoch}"
            cause += f" that no log names, more than orphan.bytes.max {size_max}"
            change = PartitionChange(leader=partition.leader)
            records[key] = change_record(image, key, partition, change, cause)
    return ControllerResult(list(records.values()), list(records))
