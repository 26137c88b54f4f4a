"""Verdicts that are taken back: a lost replica that is whole and proves itself is one again.

A lost replica keeps its uuid, or stands in `former_uuids` once it was made anew, until the new
making is in sync. As long, nothing of it is removed, and it may be restored as it was found: it
names the disk that the broker has, proves that it has all that is committed, and every file that it
names is there with the bytes that its name says (DESIGN §8).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafka_on_spark.controller.brokers import change_record
from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import RootFullError
from kafka_on_spark.ids import (
    LOST,
    BrokerId,
    DirectoryId,
    PartitionEpoch,
    PartitionKey,
    ReplicaUuid,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeReplica:
    """A lost replica whose table was found whole.

    Attributes:
        key: The partition.
        broker_id: On whose root it stands.
        replica_uuid: Which making of it.
        directory_id: The disk that it names, and that stands there.
        partition_epoch: Of the registration that it has proved itself by.
    """

    key: PartitionKey
    broker_id: BrokerId
    replica_uuid: ReplicaUuid
    directory_id: DirectoryId
    partition_epoch: PartitionEpoch


def lost_replicas(
    image: MetadataImage, partition: PartitionRegistration
) -> Iterator[tuple[BrokerId, ReplicaUuid]]:
    """Yield the replicas of a partition that were lost and may be taken back, if their disk is
    there."""
    places = zip(partition.replicas, partition.replica_uuids, partition.directories, strict=True)
    for broker_id, replica_uuid, directory in places:
        if not image.brokers[broker_id].is_online:
            continue
        former = partition.former_of(broker_id)
        if former is not None:
            yield broker_id, former
        elif directory == LOST:
            yield broker_id, replica_uuid


def restore(
    image: MetadataImage, found: Sequence[WholeReplica]
) -> ControllerResult[list[PartitionKey]]:
    """Decide that whole replicas are lost no more. Answer: the partitions that get one back.

    Who was the ISR's last member is in it still; all others come back outside of it. What was
    found of a partition that has changed since says nothing.
    """
    records: list[Record] = []
    restored = []
    for one in found:
        partition = image.partition(one.key)
        if partition is None or partition.partition_epoch != one.partition_epoch:
            continue
        if one.key in restored or not _is_lost_still(image, partition, one):
            continue
        cause = f"broker {one.broker_id}: the replica that was lost is whole: taken back"
        change = _taken_back(partition, one)
        records.append(change_record(image, one.key, partition, change, cause))
        restored.append(one.key)
    return ControllerResult(records, restored)


def _is_lost_still(
    image: MetadataImage, partition: PartitionRegistration, one: WholeReplica
) -> bool:
    broker = image.brokers.get(one.broker_id)
    if broker is None or broker.directory_id != one.directory_id:
        return False
    if one.broker_id not in partition.replicas:
        return False
    return (one.broker_id, one.replica_uuid) in set(lost_replicas(image, partition))


def _taken_back(partition: PartitionRegistration, one: WholeReplica) -> PartitionChange:
    place = partition.replicas.index(one.broker_id)
    uuids, directories = list(partition.replica_uuids), list(partition.directories)
    former = list(partition.former_uuids) or [None] * len(uuids)
    uuids[place], directories[place], former[place] = one.replica_uuid, one.directory_id, None
    return PartitionChange(
        replica_uuids=tuple(uuids), directories=tuple(directories), former_uuids=tuple(former)
    )


def release_former(image: MetadataImage, report: PartitionReport) -> PartitionChangeRecord | None:
    """Decide that a lost replica is given up because its disk has no room for the new making; None
    where there is room, or records may rest on it.

    Its table is removed then. The ISR must have min.insync.replicas members without it.
    """
    partition = image.partition(report.key)
    if partition is None or partition.partition_epoch != report.partition_epoch:
        return None
    min_isr = image.settings(report.key.topic_id).integer("min.insync.replicas")
    for seen in report.followers:
        if seen.error_code != RootFullError.code or seen.broker_id not in partition.replicas:
            continue
        if partition.former_of(seen.broker_id) is None:
            continue
        if len(partition.isr - {seen.broker_id}) < min_isr:
            continue
        return _released(image, report.key, partition, seen.broker_id)
    return None


def _released(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    broker_id: BrokerId,
) -> PartitionChangeRecord:
    former = tuple(
        None if each == broker_id else partition.former_of(each) for each in partition.replicas
    )
    cause = f"broker {broker_id}: no room for the replica beside the one that was lost"
    return change_record(image, key, partition, PartitionChange(former_uuids=former), cause)
