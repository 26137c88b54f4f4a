"""The tables of replicas: made by the commit that says where they are, removed once unassigned.

An empty table is created first, then one metadata commit says on which disk it is. Before that
nothing is appended to it or counted, so a try that fails halfway only leaves an empty table.

To remove, a root is listed first, then the process catches up on the metadata, and it removes only
listed tables whose replicas once were assigned and are not now. A replica uuid is created with its
assignment, and once it is unassigned it is never assigned again (I18, I19); one that was lost and
created again stays assigned until its new incarnation is in sync. So "was assigned, and is not any
more" is true for ever once it is true: a process that removes a table late, on an old image or as a
deposed controller, removes nothing that is in use. A uuid that the log does not know is left alone:
a later piece of the log may have it.

A table whose removal is lost, or whose disk is away, is found again by a full listing of each
broker that this process has not listed since it came back. The root of an unregistered broker is
never listed: it is emptied before.
"""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import compress
from math import inf
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import (
    CorruptLogError,
    HistoryExpiredError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import (
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionKey,
    ReplicaUuid,
    TopicId,
)
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.failures import Failures
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import BrokerRegistration, ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import MetadataBatch, Record
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.deadlines import SHORT, within
from kafka_on_spark.store.root_identity import check_directory
from kafka_on_spark.store.roots import RootFiles, StorageOptions

log = logging.getLogger(__name__)

LOCAL_CREATIONS_MAX: Final = 32
"""So few tables are created in this process faster than a Spark job begins."""

REMOVALS_AT_ONCE: Final = 64
"""Tables removed before the metadata is read again."""


@dataclass(frozen=True, slots=True)
class CreateReplicaOrder:
    """The replica to create, and the leader epoch that its empty log is fenced at."""

    address: ReplicaAddress
    leader_epoch: LeaderEpoch


def create_replicas(node: Node, keys: Iterable[PartitionKey]) -> None:
    """Create the replicas of `keys` that were never created, with one metadata commit."""
    orders = plan_creations(node.metadata.image, keys)
    if not orders:
        return
    is_created = node.tasks.run(create_replica_task, orders, few=LOCAL_CREATIONS_MAX)
    created = [order.address for order in compress(orders, is_created)]
    node.submit(lambda image: record_created(image, created))


def plan_creations(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[CreateReplicaOrder]:
    """Return the orders for replicas that were never created, on brokers that answer."""
    orders = []
    for key in keys:
        partition = image.partition(key)
        if partition is None:
            continue
        for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
            broker = image.brokers[broker_id]
            if directory is None and broker.is_online:
                address = address_of(
                    image, key, partition, broker_id, directory_id=broker.directory_id
                )
                orders.append(CreateReplicaOrder(address, partition.leader_epoch))
    return orders


def create_replica_task(order: CreateReplicaOrder, worker: Worker) -> bool:
    """Create one empty table; return whether it is there. A task."""
    try:
        worker.replicas.create(order.address, leader_epoch=order.leader_epoch)
    except KafkaOnSparkError as error:
        log.info("a replica could not be created: %s: %s", order.address, error)
        return False
    return True


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
        found = {
            (each.broker_id, each.replica_uuid): each.directory_id
            for each in addresses
            if image.brokers[each.broker_id].directory_id == each.directory_id
        }
        replicas = zip(partition.replicas, partition.replica_uuids, strict=True)
        directories = tuple(
            found.get(replica) if directory is None else directory
            for replica, directory in zip(replicas, partition.directories, strict=True)
        )
        if directories != partition.directories:
            brokers = ", ".join(str(each.broker_id) for each in addresses)
            change = PartitionChange(directories=directories)
            cause = f"replicas made on brokers {brokers}"
            records.append(change_record(image, key, partition, change, cause))
    return ControllerResult(records, None)


class Incarnation(NamedTuple):
    """One incarnation of one replica: a replica that is created again has another uuid."""

    key: PartitionKey
    replica_uuid: ReplicaUuid


def is_assigned(image: MetadataImage, replica: Incarnation) -> bool:
    """Return whether the replica is assigned, or may yet be taken back."""
    partition = image.partition(replica.key)
    if partition is None:
        return False
    return replica.replica_uuid in (*partition.replica_uuids, *partition.former_uuids)


def unassigned_between(before: MetadataImage, after: MetadataImage) -> Iterator[Incarnation]:
    """Yield the replicas that are assigned in one image, and not any more in a later one."""
    for topic_id, topic in before.topics.items():
        later = after.topics.get(topic_id)
        if later is not None and later.partitions is topic.partitions:
            continue
        for number, partition in topic.partitions.items():
            if later is not None and later.partitions.get(number) is partition:
                continue
            for replica_uuid in (*partition.replica_uuids, *partition.former_uuids):
                if replica_uuid is not None:
                    replica = Incarnation(PartitionKey(topic_id, number), replica_uuid)
                    if not is_assigned(after, replica):
                        yield replica


def times_unassigned(
    pieces: Iterable[tuple[MetadataImage, Sequence[MetadataBatch]]], wanted: frozenset[Incarnation]
) -> dict[Incarnation, int]:
    """Return when (ms since 1970 UTC) each of `wanted` was unassigned, by the log's history.

    `pieces` are all of the history, newest first, each with the image that it continues. No more
    of them are read than needed, since an unassigned replica is never assigned again. A replica
    that was never assigned, or still is, is not in the answer.
    """
    times: dict[Incarnation, int] = {}
    for image, batches in pieces:
        assigned = {each for each in wanted if is_assigned(image, each)}
        for batch in batches:
            image = image.replay(batch)
            now = {each for each in wanted if is_assigned(image, each)}
            times |= dict.fromkeys(assigned - now, batch.stamp.time_ms)
            assigned = now
        if len(times) == len(wanted):
            break
    return times


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A folder on a broker's root that is named like a replica's: of which one, its path says."""

    broker_id: BrokerId
    path: str
    replica: Incarnation


_TOPIC_FOLDER: Final = re.compile(r"[a-zA-Z0-9._-]+-([0-9a-f]{32})")

_REPLICA_FOLDER: Final = re.compile(r"(\d+)-([0-9a-f]{32})")


def tables_on(
    broker_id: BrokerId,
    root: str,
    options: StorageOptions,
    topic_ids: frozenset[TopicId] | None,
) -> Iterator[FoundTable]:
    """Yield the folders on a root that are named like replicas', of these topics or of all."""
    files = RootFiles(root, options)
    for topic_folder in files.names(root):
        topic = _TOPIC_FOLDER.fullmatch(topic_folder)
        if topic is None or (topic_ids is not None and topic[1] not in topic_ids):
            continue
        for name in files.names(f"{root}/{topic_folder}"):
            replica = _REPLICA_FOLDER.fullmatch(name)
            if replica is not None:
                key = PartitionKey(TopicId(topic[1]), int(replica[1]))
                yield FoundTable(
                    broker_id=broker_id,
                    path=f"{root}/{topic_folder}/{name}",
                    replica=Incarnation(key, ReplicaUuid(replica[2])),
                )


def remove_table(
    root: str,
    directory_id: DirectoryId,
    table: FoundTable,
    options: StorageOptions,
    *,
    registered_voters: Sequence[str] = (),
) -> None:
    """Remove a replica's folder, and its topic's folder if that is empty then.

    A crash leaves a folder that is still named like a replica, and found again. A process that
    creates a replica creates the topic's folder, too.
    """

    topic_folder, name = table.path.rsplit("/", 2)[-2:]
    above = f"{root}/{topic_folder}"
    key, replica_uuid = table.replica
    is_named = (
        table.path == f"{above}/{name}"
        and topic_folder.endswith(f"-{key.topic_id}")
        and name == f"{key.partition}-{replica_uuid}"
    )

    def remove() -> None:
        check_directory(root, directory_id, options, registered_voters)
        # A link could lead out of the root.
        if not is_named or within(root, lambda: os.path.islink(above), SHORT):
            raise KafkaStorageError(f"{table.path} is not where a replica's folder would be")
        files = RootFiles(root, options)
        files.delete(table.path)
        files.delete_empty_folder(above)

    within(root, remove)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrder:
    """Whose root to list; `topic_ids`: only the folders of these topics."""

    broker: BrokerRegistration
    topic_ids: frozenset[TopicId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrder:
    """Which table to remove; the broker's root must be the disk that it was when it was listed, and
    obey one of the voters that the metadata log ever had."""

    broker: BrokerRegistration
    table: FoundTable
    registered_voters: tuple[str, ...] = ()


CheckControls = Callable[[MetadataImage], None]


class TableRemoval:
    """What one process knows of tables to remove. Threads may share it: a lock admits one."""

    def __init__(self, node: Node) -> None:
        self._metadata = node.metadata
        self._clock = node.clock
        self._tasks = node.tasks
        self._failures = node.part(Failures)
        self._lock = threading.Lock()
        self._seen: MetadataImage | None = None
        self._gone: dict[Incarnation, int] = {}  # whose tables may be there, and since when
        self._listed: set[tuple[BrokerId, DirectoryId]] = set()

    def clean(self, check_controls: CheckControls) -> int:
        """Remove the tables that are due; return how many. A root that fails is listed again.
        Raises as `check_controls`, if another controller has taken over."""
        with self._lock:
            image = self._catch_up()
            if image.settings().holds_deletes(self._clock.now_ms()):
                return 0
            due = {each for each, since_ms in self._gone.items() if self._is_due(each, since_ms)}
            orders = self._orders(image, frozenset(each.key.topic_id for each in due))
            if not orders:
                return 0
            duration_ms = image.settings().integer("broker.heartbeat.interval.ms")
            return self._list_and_remove(orders, check_controls, due, duration_ms=duration_ms)

    def empty(self, broker_id: BrokerId) -> int:
        """Remove all unassigned tables from a broker's root, due or not; return how many.

        For a broker that is about to be unregistered. From a root that does not answer nothing is
        removed: if it comes back, under any id, all of it is listed.
        """
        with self._lock:
            broker = self._catch_up().brokers.get(broker_id)
            if broker is None or not broker.is_online:
                return 0
            order = ListOrder(broker=broker, topic_ids=None)
            return self._list_and_remove([order], None, duration_ms=inf)

    def _orders(self, image: MetadataImage, topic_ids: frozenset[TopicId]) -> list[ListOrder]:
        """Return which roots to list: all of a broker that is new or back, else the due topics."""
        online = [image.brokers[each] for each in sorted(image.brokers)]
        online = [broker for broker in online if broker.has_upkeep]
        self._listed &= {(broker.broker_id, broker.directory_id) for broker in online}
        known = {broker_id for broker_id, _ in self._listed}
        return [
            ListOrder(broker=broker, topic_ids=topic_ids if broker.broker_id in known else None)
            for broker in online
            if topic_ids or broker.broker_id not in known
        ]

    def _list_and_remove(
        self,
        orders: Sequence[ListOrder],
        check_controls: CheckControls | None,
        due: AbstractSet[Incarnation] = frozenset(),
        *,
        duration_ms: float,
    ) -> int:
        """List roots and remove what is due there, or without `check_controls` all that is
        unassigned; return how many tables. A listing counts once all of its tables were judged; of
        `due`, for which all roots are listed, those that none has are forgotten."""
        results = self._tasks.run(list_task, orders)
        image = self._catch_up()  # after the listing, so that it has every listed assignment
        brokers = {order.broker.broker_id: order.broker for order in orders}
        tables = [each for found in results if not isinstance(found, str) for each in found]
        unassigned = self._unassigned(image, tables)
        removals = [
            RemoveOrder(
                broker=brokers[table.broker_id],
                table=table,
                registered_voters=image.registered_voters,
            )
            for table, since_ms in unassigned
            if check_controls is None or self._is_due(table.replica, since_ms)
        ]
        removed = self._remove_all(removals, check_controls, duration_ms=duration_ms)
        for order, found in zip(orders, results, strict=True):
            disk = order.broker.broker_id, order.broker.directory_id
            why = found if isinstance(found, str) else ""
            self._failures.note({f"listing of broker {order.broker.broker_id}": why})
            if why:
                self._listed.discard(disk)  # a full listing finds what was missed now
            else:
                self._listed.add(disk)
        for each in due - {table.replica for table, _ in unassigned}:
            self._gone.pop(each, None)
        return removed

    def _catch_up(self) -> MetadataImage:
        """Catch up on the metadata, and note the replicas that were unassigned since."""
        image = self._metadata.catch_up()
        seen = image if self._seen is None else self._seen
        unassigned = frozenset(unassigned_between(seen, image))
        if unassigned:
            batches = self._metadata.log.read(from_offset=seen.offset, to_offset=image.offset)
            self._gone |= times_unassigned([(seen, batches)], unassigned)
        self._seen = image
        return image

    def _is_due(self, replica: Incarnation, since_ms: int) -> bool:
        settings = self._metadata.image.settings(replica.key.topic_id)
        return since_ms + settings.delete_delay_ms <= self._clock.now_ms()

    def _unassigned(
        self, image: MetadataImage, tables: Iterable[FoundTable]
    ) -> list[tuple[FoundTable, int]]:
        """Return the tables that are assigned no more, and since when (ms since 1970 UTC)."""
        found = {table.replica: table for table in tables if not is_assigned(image, table.replica)}
        unseen = frozenset(found.keys() - self._gone.keys())
        if unseen:
            self._gone |= self._look_up(unseen)
        return [(table, self._gone[each]) for each, table in found.items() if each in self._gone]

    def _look_up(self, replicas: frozenset[Incarnation]) -> dict[Incarnation, int]:
        """Return when replicas were unassigned that this process has not seen go, by the log. A
        table of whose replica the history that is left says nothing stays."""

        def pieces() -> Iterator[tuple[MetadataImage, Sequence[MetadataBatch]]]:
            try:
                yield from self._metadata.pieces_newest_first()
            except HistoryExpiredError as error:
                log.warning("replicas that were unassigned before are not known: %s", error)

        try:
            times = times_unassigned(pieces(), replicas)
        except (CorruptLogError, KafkaStorageError) as error:
            log.warning(
                "%d tables are left alone: no history to judge them by: %s", len(replicas), error
            )
            return {}
        if unknown := sorted(replicas - times.keys()):
            log.warning(
                "%d tables are of replicas that the metadata log has never heard of, such as %s:"
                " they are left alone",
                len(unknown),
                unknown[0],
            )
        return times

    def _remove_all(
        self,
        orders: Sequence[RemoveOrder],
        check_controls: CheckControls | None,
        *,
        duration_ms: float,
    ) -> int:
        """Remove tables for `duration_ms` or a little longer, if they are unassigned by the newest
        metadata; return how many. The rest is left to the next pass: a controller that is too busy
        to renew its lease would count as dead."""
        started_ms = self._clock.monotonic_ms()
        removed = 0
        for start in range(0, len(orders), REMOVALS_AT_ONCE):
            if self._clock.monotonic_ms() - started_ms > duration_ms:
                break
            image = self._catch_up()
            if check_controls is not None:
                check_controls(image)
            some = [
                order
                for order in orders[start : start + REMOVALS_AT_ONCE]
                if not is_assigned(image, order.table.replica)
            ]
            for order, error in zip(some, self._tasks.run(remove_task, some), strict=True):
                table = order.table
                if error is None:
                    removed += 1
                    self._gone.pop(table.replica, None)
                    log.info("removed %s: it is assigned to nobody", table.path)
                self._failures.note({f"removal of {table.path}": error or ""})
        return removed


def list_task(order: ListOrder, worker: Worker) -> list[FoundTable] | str:
    """Return the tables on one root, or why it could not be listed. A task."""
    broker = order.broker
    try:
        check_directory(broker.root, broker.directory_id, worker.options)
        return list(tables_on(broker.broker_id, broker.root, worker.options, order.topic_ids))
    except KafkaOnSparkError as error:
        return error.message


def remove_task(order: RemoveOrder, worker: Worker) -> str | None:
    """Remove one table; return why it could not be, or None. A task."""
    try:
        remove_table(
            order.broker.root,
            order.broker.directory_id,
            order.table,
            worker.options,
            registered_voters=order.registered_voters,
        )
    except KafkaOnSparkError as error:
        return error.message
    return None
