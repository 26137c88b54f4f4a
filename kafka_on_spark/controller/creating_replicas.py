"""Creation of replicas: empty tables first, then one metadata commit that says where they are.

Only a replica whose directory is null may be created. Before that commit nothing is appended to it
or counted, so a try that fails halfway only leaves an empty table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    ProtocolError,
)
from kafka_on_spark.base.ids import DirectoryId, LeaderEpoch, PartitionKey
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import Record
from kafka_on_spark.metadata.result import ControllerResult
from kafka_on_spark.node.node import Node


@dataclass(frozen=True, slots=True)
class CreateReplicaOrder:
    """The replica to create, and the leader epoch that its empty log is fenced at."""

    address: ReplicaAddress
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class CreateReplicaResult:
    """One row: the replica, and NO_ERROR if its empty table is there."""

    address: ReplicaAddress
    error_code: int
    error: str | None = None


LOCAL_CREATIONS_MAX: Final = 32
"""So few tables are created in this process faster than a Spark job begins."""


def create_replica(order: CreateReplicaOrder, replicas: ReplicaStore) -> CreateReplicaResult:
    try:
        replicas.create(order.address, leader_epoch=order.leader_epoch)
    except KafkaOnSparkError as error:
        code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
        return CreateReplicaResult(order.address, code, str(error))
    return CreateReplicaResult(order.address, NO_ERROR)


def create_replica_task(order: CreateReplicaOrder, worker: Worker) -> CreateReplicaResult:
    """Create one empty table. A task."""
    return create_replica(order, worker.replicas)


def plan_creations(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[CreateReplicaOrder]:
    """Return the orders for replicas that were never created, on brokers that answer."""
    orders = []
    for key in keys:
        partition = image.partition(key)
        if partition is None or None not in partition.directories:
            continue
        for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
            broker = image.brokers[broker_id]
            if directory is None and broker.is_online:
                address = address_of(
                    image, key, partition, broker_id, directory_id=broker.directory_id
                )
                orders.append(CreateReplicaOrder(address, partition.leader_epoch))
    return orders


def create_replicas(node: Node, keys: Iterable[PartitionKey]) -> list[CreateReplicaResult]:
    """Create the replicas of `keys` that were never created, with one metadata commit."""
    orders = plan_creations(node.metadata.image, keys)
    if not orders:
        return []
    results = node.tasks.run(create_replica_task, orders, few=LOCAL_CREATIONS_MAX)
    created = [each.address for each in results if each.error_code == NO_ERROR]
    node.metadata.submit(lambda image: record_created(image, created), timeout_ms=node.timeout_ms)
    return results


def record_created(
    image: MetadataImage, created: Sequence[ReplicaAddress]
) -> ControllerResult[None]:
    """Decide the records that say where `created` replicas are, if they are still assigned."""
    by_key: dict[PartitionKey, list[ReplicaAddress]] = {}
    for address in created:
        by_key.setdefault(address.key, []).append(address)
    records: list[Record] = []
    for key, addresses in by_key.items():
        partition = image.partition(key)
        if partition is None:
            continue
        directories = _directories(image, partition, addresses)
        if directories == partition.directories:
            continue
        brokers = ", ".join(str(each.broker_id) for each in addresses)
        change = PartitionChange(directories=directories)
        cause = f"replicas made on brokers {brokers}"
        records.append(change_record(image, key, partition, change, cause))
    return ControllerResult(records, None)


def _directories(
    image: MetadataImage,
    partition: PartitionRegistration,
    addresses: Sequence[ReplicaAddress],
) -> tuple[DirectoryId | None, ...]:
    created = {
        (each.broker_id, each.replica_uuid): each.directory_id
        for each in addresses
        if image.brokers[each.broker_id].directory_id == each.directory_id
    }
    places = zip(partition.replicas, partition.replica_uuids, partition.directories, strict=True)
    return tuple(
        created.get((broker_id, uuid)) if directory is None else directory
        for broker_id, uuid, directory in places
    )
