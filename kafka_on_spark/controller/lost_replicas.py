"""How a replica is called lost by a person, made anew, or taken back if the verdict was wrong.

A lost replica keeps its uuid, or stands in `former_uuids` once it is created again, until the new
incarnation is in sync. Until then nothing of it is removed, and it may be restored as it is: its
disk is the one that the broker has, its log proves to have all that is committed, and each file
that it names exists with the content that its name says.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    RootFullError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import (
    LOST,
    BrokerId,
    DirectoryId,
    PartitionEpoch,
    PartitionKey,
    ReplicaUuid,
)
from kafka_on_spark.controller.partition_change import change_record, lost_change
from kafka_on_spark.metadata.high_watermark import min_isr_setting
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord, Record
from kafka_on_spark.metadata.reports import PartitionReport
from kafka_on_spark.metadata.result import ControllerResult


def lose_replica(
    image: MetadataImage, key: PartitionKey, broker_id: BrokerId, cause: str
) -> ControllerResult[None]:
    """Decide that a replica is lost because a person says so.

    Raises:
        UnknownTopicOrPartitionError: The partition is gone.
        InvalidRequestError: The broker has no replica of it that was created and is not lost.
    """
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"partition {key.partition} is gone: it was deleted")
    if broker_id not in partition.replicas or not partition.is_created(broker_id):
        holders = ", ".join(str(each) for each in partition.replicas if partition.is_created(each))
        raise InvalidRequestError(
            f"can't give up the replica of {image.name_of(key)} on broker {broker_id}: it has none"
            f" that is not lost already; name one of the brokers {holders}"
        )
    change = lost_change(image, partition, broker_id)
    return ControllerResult([change_record(image, key, partition, change, cause)], None)


def renew_lost(
    image: MetadataImage, new_uuid: Callable[[], str]
) -> ControllerResult[list[PartitionKey]]:
    """Decide new uuids for lost replicas outside the ISR: they are created and fetched again.

    The last member of an ISR keeps its uuid: its disk may come back with records that no other
    replica has. The former uuids of the others are kept, so that a wrong verdict can be taken back.
    """
    records: list[Record] = []
    renewed = []
    for key, partition in image.partitions_needing_work():
        places = [
            place
            for place, broker_id in enumerate(partition.replicas)
            if partition.directories[place] == LOST
            and broker_id not in partition.isr
            and image.brokers[broker_id].is_online
        ]
        if not places:
            continue
        uuids, directories = list(partition.replica_uuids), list(partition.directories)
        former = list(partition.former_uuids) or [None] * len(uuids)
        for place in places:
            former[place] = former[place] or uuids[place]
            uuids[place], directories[place] = ReplicaUuid(new_uuid()), None
        change = PartitionChange(
            replica_uuids=tuple(uuids),
            former_uuids=tuple(former),
            directories=tuple(directories),
        )
        brokers = ", ".join(str(partition.replicas[place]) for place in places)
        cause = f"broker {brokers}: lost replica is made anew and fetched from the log start"
        records.append(change_record(image, key, partition, change, cause))
        renewed.append(key)
    return ControllerResult(records, renewed)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeReplica:
    """A lost replica whose table was found whole, on the disk that it names and that the root is.
    Its log was proved by the registration of `partition_epoch`."""

    key: PartitionKey
    broker_id: BrokerId
    replica_uuid: ReplicaUuid
    directory_id: DirectoryId
    partition_epoch: PartitionEpoch


def lost_replicas(
    image: MetadataImage, partition: PartitionRegistration
) -> Iterator[tuple[BrokerId, ReplicaUuid]]:
    """Yield the lost replicas of a partition that may be taken back, on brokers that answer."""
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

    The last member of an ISR is still in it; all others come back out of sync. A finding about a
    partition that has changed since does not count.
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
    """Decide that a lost replica is given up, since its disk is too full for the new incarnation.

    Its table is removed afterwards. None if there is room, or if the ISR has not
    min.insync.replicas members without it, so that records may rest on it.
    """
    partition = image.partition(report.key)
    if partition is None or partition.partition_epoch != report.partition_epoch:
        return None
    minimum = min_isr_setting(image, report.key.topic_id)
    for seen in report.followers:
        if seen.error_code != RootFullError.code or seen.broker_id not in partition.replicas:
            continue
        if partition.former_of(seen.broker_id) is None:
            continue
        if len(partition.isr - {seen.broker_id}) < minimum:
            continue
        former = tuple(
            None if each == seen.broker_id else partition.former_of(each)
            for each in partition.replicas
        )
        cause = f"broker {seen.broker_id}: no room for the replica beside the one that was lost"
        change = PartitionChange(former_uuids=former)
        return change_record(image, report.key, partition, change, cause)
    return None
