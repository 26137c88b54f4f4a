"""Stop and delete in a simulated cluster: what lists the folders on a disk, and removes one.

Source: controller/replica_tables.py.
"""

from typing import TYPE_CHECKING

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import DirectoryId, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.controller.replica_tables import FoundTable, Incarnation, ListOrder, RemoveOrder
from tests.simulation.checks.ledger import Ledger, require
from tests.simulation.world.disks import Root
from tests.simulation.world.world import FAILED

if TYPE_CHECKING:
    from tests.simulation.world.workers import Worker


def replica_at(place: str) -> tuple[PartitionKey, ReplicaUuid]:
    topic_id, name = place.split("/")
    number, _, uuid = name.partition("-")
    return PartitionKey(TopicId(topic_id), int(number)), ReplicaUuid(uuid)


def list_folders(order: ListOrder, worker: "Worker") -> list[FoundTable] | str:
    world, broker = worker.world, order.broker
    root = world.disks.roots[broker.root]
    fault = world.scheduler.call("list", root)
    try:
        _check(root, broker.directory_id, fault)
        root.check_reads()
    except KafkaOnSparkError as error:
        return error.message
    wanted = order.topic_ids
    return [
        FoundTable(broker_id=broker.broker_id, path=f"{root.url}/{place}", replica=replica)
        for place in {**root.tables, **root.files}
        for replica in [Incarnation(*replica_at(place))]
        if wanted is None or replica.key.topic_id in wanted
    ]


def remove_folder(order: RemoveOrder, worker: "Worker") -> str | None:
    """Remove one folder; return why it could not be, or None."""
    world = worker.world
    root = world.disks.roots[order.broker.root]
    fault = world.scheduler.call("remove", root)
    try:
        _check(root, order.broker.directory_id, fault)
        root.check_writes()
    except KafkaOnSparkError as error:
        return error.message
    world.disks.remove(root, order.table.path.removeprefix(f"{root.url}/"))
    return None


def _check(root: Root, directory_id: DirectoryId, fault: str | None) -> None:
    if fault in FAILED:
        raise KafkaStorageError("EIO")
    if root.directory_id != directory_id:
        raise KafkaStorageError("the root is not the disk it was")


def _is_assigned(ledger: Ledger, place: str) -> bool:
    key, uuid = replica_at(place)
    partition = ledger.image.partition(key)
    return partition is not None and uuid in partition.replica_uuids


def _is_former(ledger: Ledger, place: str) -> bool:
    key, uuid = replica_at(place)
    partition = ledger.image.partition(key)
    return partition is not None and uuid in partition.former_uuids


def removed_is_unassigned(ledger: Ledger, place: str) -> None:
    """I18, I19: a table is removed only after the commit that takes its replica away."""
    require(
        not _is_assigned(ledger, place),
        "I18 removed replicas are unassigned",
        f"{place} is assigned",
    )


def left_over(ledger: Ledger) -> list[str]:
    """Return the folders on disks of unassigned replicas."""
    return [
        f"{root.url}/{place}"
        for root in ledger.disks.roots.values()
        for place in {**root.tables, **root.files}
        if not _is_assigned(ledger, place) and not _is_former(ledger, place)
    ]


def nothing_is_left(ledger: Ledger) -> None:
    """In the end no disk of the cluster holds an unassigned replica."""
    left = left_over(ledger)
    require(not left, "L7 unassigned replicas are removed", f"{left} are unassigned")
