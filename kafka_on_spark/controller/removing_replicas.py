"""Removing the tables of replicas that are assigned no more from the roots.

First a root is listed, then the process catches up on the metadata, and it removes only listed
tables whose replicas once were assigned and are not now. That is safe by one invariant: a replica
uuid is created with its assignment, and once it is unassigned it is never assigned again (I18,
I19). A replica that was lost and created again stays assigned until its new incarnation is in sync:
until then it stands in `former_uuids`. "Was assigned, and is not any more" is therefore true for
ever once it is true: a process that removes a table late, on an old image or as a deposed
controller, removes nothing that is in use. A uuid that the log does not know is left alone: a later
piece of the log may have it.

A table whose removal is lost, or whose disk is away, is found again by a full listing of each
broker that this process has not listed since it came back. Readers have file.delete.delay.ms to
finish. The root of an unregistered broker is never listed: it is emptied before.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple, TypeVar

from kafka_on_spark.base.errors import (
    CorruptLogError,
    HistoryExpiredError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import KEEP, BrokerId, DirectoryId, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.log.replica_folders import FoundTable, remove_table, tables_on
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RemovePartitionRecord,
    RemoveTopicRecord,
)
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.root_identity import check_directory

log = logging.getLogger(__name__)
T = TypeVar("T")


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


def unassigned_by(
    before: MetadataImage,
    batches: Iterable[MetadataBatch],
    only: frozenset[PartitionKey] | None = None,
) -> Iterator[tuple[Incarnation, int]]:
    """Yield the replicas that `batches` unassign, and when (ms since 1970 UTC).

    `before` is the image that the batches continue. A replica that they assign and
    unassign again is among them. `only`: of these partitions.
    """
    assigned = _Assigned(before)
    for batch in batches:
        for record in batch.records:
            for key, uuids in assigned.changes(record):
                if only is not None and key not in only:
                    continue
                for replica_uuid in sorted(assigned.uuids(key) - uuids.all):
                    yield Incarnation(key, replica_uuid), batch.stamp.time_ms
                assigned.change(key, uuids)


class _Uuids(NamedTuple):
    """The replicas of a partition: those of now, and those that may yet be taken back."""

    replicas: tuple[ReplicaUuid, ...]
    former: tuple[ReplicaUuid | None, ...]

    @property
    def all(self) -> frozenset[ReplicaUuid]:
        return frozenset(self.replicas).union(each for each in self.former if each is not None)


_NONE: Final = _Uuids((), ())


class _Assigned:
    """Which replicas are assigned, after the records so far."""

    def __init__(self, before: MetadataImage) -> None:
        self._before = before
        self._known: dict[PartitionKey, _Uuids] = {}

    def uuids(self, key: PartitionKey) -> frozenset[ReplicaUuid]:
        """Return the replicas of a partition; none if it does not exist."""
        return self._of(key).all

    def _of(self, key: PartitionKey) -> "_Uuids":
        if key in self._known:
            return self._known[key]
        partition = self._before.partition(key)
        if partition is None:
            return _NONE
        return _Uuids(partition.replica_uuids, partition.former_uuids)

    def change(self, key: PartitionKey, uuids: "_Uuids") -> None:
        """Set a partition's replicas from now on."""
        self._known[key] = uuids

    def changes(self, record: Record) -> "list[tuple[PartitionKey, _Uuids]]":
        """Return the partitions whose replicas a record sets, and these; none: it is removed."""
        if isinstance(record, PartitionRecord):
            after = record.registration
            return [(record.key, _Uuids(after.replica_uuids, after.former_uuids))]
        if isinstance(record, PartitionChangeRecord):
            uuids, former = record.change.replica_uuids, record.change.former_uuids
            if uuids is KEEP and former is KEEP:
                return []
            before = self._of(record.key)
            changed = _Uuids(
                before.replicas if uuids is KEEP else uuids,
                before.former if former is KEEP else former,
            )
            return [(record.key, changed)]
        if isinstance(record, RemovePartitionRecord):
            return [(record.key, _NONE)]
        if isinstance(record, RemoveTopicRecord):
            return [(key, _NONE) for key in self._keys_of(record.topic_id)]
        return []

    def _keys_of(self, topic_id: TopicId) -> set[PartitionKey]:
        topic = self._before.topics.get(topic_id)
        numbers = () if topic is None else topic.partitions
        known = {PartitionKey(topic_id, number) for number in numbers}
        return known | {key for key in self._known if key.topic_id == topic_id}


def times_unassigned(
    pieces: Iterable[tuple[MetadataImage, Sequence[MetadataBatch]]], wanted: frozenset[Incarnation]
) -> dict[Incarnation, int]:
    """Return when (ms since 1970 UTC) each of `wanted` was unassigned, by the log's history.

    `pieces` are all of the history, newest first, each with the image that it continues. No more
    of them are read than needed, since an unassigned replica is never assigned again. A replica
    that was never assigned, or still is, is not in the answer.
    """
    times: dict[Incarnation, int] = {}
    for before, batches in pieces:
        left = wanted - times.keys()
        keys = frozenset(replica.key for replica in left)
        times |= {each: at for each, at in unassigned_by(before, batches, keys) if each in left}
        if len(times) == len(wanted):
            break
    return times


REMOVALS_AT_ONCE: Final = 64
"""Tables removed before the metadata is read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrder:
    """Which root to list; `topic_ids`: only the folders of these topics."""

    broker_id: BrokerId
    root: str
    directory_id: DirectoryId
    topic_ids: frozenset[TopicId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """The tables on a root, or why it could not be listed."""

    broker_id: BrokerId
    tables: tuple[FoundTable, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrder:
    """Which table to remove; the root must be the disk that it was when it was listed, and obey one
    of the voters that the metadata log ever had."""

    root: str
    directory_id: DirectoryId
    table: FoundTable
    registered_voters: tuple[str, ...] = ()


CheckControls = Callable[[MetadataImage], None]


def _pieces_kept(pieces: Iterator[T]) -> Iterator[T]:
    """Yield what is left of the history: a table of whose replica it says nothing stays."""
    try:
        yield from pieces
    except HistoryExpiredError as error:
        log.warning("replicas that were unassigned before are not known: %s", error)


class Cleaner:
    """What one process knows of tables to remove. Threads may share it: a lock admits one."""

    def __init__(self, node: Node) -> None:
        self._metadata = node.metadata
        self._clock = node.clock
        self._tasks = node.tasks
        self._lock = threading.Lock()
        self._seen: MetadataImage | None = None
        self._times: dict[Incarnation, int] = {}
        self._unknown_replicas: set[Incarnation] = set()
        self._due_ms: dict[TopicId, int] = {}
        self._listed: set[tuple[BrokerId, DirectoryId]] = set()

    def clean(self, check_controls: CheckControls) -> int:
        """Remove the tables that are due; return how many. A root that fails is listed again.

        Raises:
            NotControllerError: `check_controls` says that another controller has taken over.
        """
        with self._lock:
            return self._clean(check_controls)

    def _clean(self, check_controls: CheckControls) -> int:
        image = self._catch_up()
        now_ms = self._clock.now_ms()
        topic_ids = frozenset(topic_id for topic_id, due in self._due_ms.items() if due <= now_ms)
        orders = self._orders(image, topic_ids)
        if not orders:
            return 0
        with self._listed_again_if_it_fails(orders, topic_ids):
            duration_ms = image.settings().integer("broker.heartbeat.interval.ms")
            removed = self._list_and_remove(orders, check_controls, duration_ms=duration_ms)
        self._forget(topic_ids)
        return removed

    @contextmanager
    def _listed_again_if_it_fails(
        self, orders: Sequence[ListOrder], topic_ids: frozenset[TopicId]
    ) -> Iterator[None]:
        """Take `topic_ids` off what is due; if what follows raises, they and what `orders` list as
        a whole are as before: a listing whose tables were not all judged counts for nothing."""
        for topic_id in topic_ids:
            del self._due_ms[topic_id]
        try:
            yield
        except BaseException:
            for topic_id in topic_ids:
                self._wait_for(topic_id, self._clock.now_ms())
            self._listed -= {_place(order) for order in orders if order.topic_ids is None}
            raise

    def _list_and_remove(
        self, orders: Sequence[ListOrder], check_controls: CheckControls, *, duration_ms: float
    ) -> int:
        results = self._tasks.run(list_task, orders)
        for order, result in zip(orders, results, strict=True):
            self._note_listing(order, result)
        image = (
            self._catch_up()
        )  # after the listing, so that it has every listed table's assignment
        roots = {order.broker_id: order for order in orders}
        removals = [
            _removal(order, table, image)
            for table in self._due(image, [each for result in results for each in result.tables])
            for order in [roots[table.broker_id]]
        ]
        return self._remove_all(removals, check_controls, duration_ms=duration_ms)

    def empty(self, broker_id: BrokerId) -> int:
        """Remove all unassigned tables from a broker's root, due or not; return how many.

        For a broker that is about to be unregistered. From a root that does not answer nothing is
        removed: if it comes back, under any id, all of it is listed.
        """
        with self._lock:
            broker = self._catch_up().brokers.get(broker_id)
            if broker is None or not broker.is_online:
                return 0
            order = ListOrder(
                broker_id=broker_id,
                root=broker.root,
                directory_id=broker.directory_id,
                topic_ids=None,
            )
            with self._listed_again_if_it_fails([order], frozenset()):
                [result] = self._tasks.run(list_task, [order])
                self._note_listing(order, result)
                image = self._catch_up()
                found = self._unassigned(image, result.tables)
                orders = [_removal(order, table, image) for table, _ in found]
                return self._remove_all(orders, lambda image: None, duration_ms=inf)

    def _catch_up(self) -> MetadataImage:
        """Catch up on the metadata, and note the replicas that were unassigned since."""
        image = self._metadata.catch_up()
        if self._seen is not None and self._seen.offset < image.offset:
            batches = self._metadata.batches(self._seen.offset, image.offset)
            for replica, time_ms in unassigned_by(self._seen, batches):
                self._times[replica] = time_ms
                self._unknown_replicas.discard(replica)
                self._wait_for(replica.key.topic_id, time_ms + _delay_ms(image, replica.key))
        self._seen = image
        return image

    def _wait_for(self, topic_id: TopicId, due_ms: int) -> None:
        self._due_ms[topic_id] = min(due_ms, self._due_ms.get(topic_id, due_ms))

    def _forget(self, topic_ids: frozenset[TopicId]) -> None:
        """Forget the replicas of topics that wait for nothing; the log still knows them."""
        over = topic_ids - self._due_ms.keys()
        for replica in [each for each in self._times if each.key.topic_id in over]:
            del self._times[replica]

    def _orders(self, image: MetadataImage, topic_ids: frozenset[TopicId]) -> list[ListOrder]:
        """Return which roots to list: all of a broker that is new or back, else the due topics."""
        online = [image.brokers[each] for each in sorted(image.brokers)]
        online = [broker for broker in online if broker.is_online]
        self._listed &= {(broker.broker_id, broker.directory_id) for broker in online}
        known = {broker_id for broker_id, _ in self._listed}
        return [
            ListOrder(
                broker_id=broker.broker_id,
                root=broker.root,
                directory_id=broker.directory_id,
                topic_ids=topic_ids if broker.broker_id in known else None,
            )
            for broker in online
            if topic_ids or broker.broker_id not in known
        ]

    def _note_listing(self, order: ListOrder, result: ListResult) -> None:
        place = _place(order)
        if result.error is None:
            self._listed.add(place)
            return
        self._listed.discard(place)  # a full listing finds what was missed now
        log.warning("broker %s could not be listed: %s", order.broker_id, result.error)

    def _due(self, image: MetadataImage, tables: Iterable[FoundTable]) -> list[FoundTable]:
        now_ms = self._clock.now_ms()
        due = []
        for table, since_ms in self._unassigned(image, tables):
            due_ms = since_ms + _delay_ms(image, _incarnation(table).key)
            if due_ms <= now_ms:
                due.append(table)
            else:
                self._wait_for(table.topic_id, due_ms)
        return due

    def _unassigned(
        self, image: MetadataImage, tables: Iterable[FoundTable]
    ) -> list[tuple[FoundTable, int]]:
        """Return the tables that are assigned no more, and since when (ms since 1970 UTC)."""
        found = {
            replica: table
            for table in tables
            if not is_assigned(image, replica := _incarnation(table))
            and replica not in self._unknown_replicas
        }
        self._look_up([each for each in found if each not in self._times])
        return [(table, self._times[each]) for each, table in found.items() if each in self._times]

    def _look_up(self, replicas: Sequence[Incarnation]) -> None:
        """Read in the log when replicas were unassigned, if this process has not seen it."""
        if not replicas:
            return
        try:
            pieces = _pieces_kept(self._metadata.pieces_newest_first())
            times = times_unassigned(pieces, frozenset(replicas))
        except (CorruptLogError, KafkaStorageError) as error:
            log.warning(
                "%d tables are left alone: no history to judge them by: %s", len(replicas), error
            )
            return
        self._times |= times
        unknown = [each for each in replicas if each not in times]
        self._unknown_replicas.update(unknown)
        if unknown:
            log.warning(
                "%d tables are of replicas that the metadata log has never heard of, such as %s:"
                " they are left alone",
                len(unknown),
                unknown[0],
            )

    def _remove_all(
        self,
        orders: Sequence[RemoveOrder],
        check_controls: CheckControls,
        *,
        duration_ms: float,
    ) -> int:
        """Remove tables for `duration_ms` or a little longer; the rest is left to the next pass.

        A controller that is too busy to renew its lease would count as dead.
        """
        started_ms = self._clock.monotonic_ms()
        removed = 0
        for start in range(0, len(orders), REMOVALS_AT_ONCE):
            if self._clock.monotonic_ms() - started_ms > duration_ms:
                for order in orders[start:]:
                    self._wait_for(order.table.topic_id, self._clock.now_ms())
                break
            removed += self._remove(orders[start : start + REMOVALS_AT_ONCE], check_controls)
        return removed

    def _remove(self, orders: Sequence[RemoveOrder], check_controls: CheckControls) -> int:
        """Remove tables if they are unassigned by the newest metadata; return how many."""
        image = self._catch_up()
        check_controls(image)
        orders = [order for order in orders if not is_assigned(image, _incarnation(order.table))]
        removed = 0
        for order, error in zip(orders, self._tasks.run(remove_task, orders), strict=True):
            table = order.table
            if error is None:
                removed += 1
                self._times.pop(_incarnation(table), None)
                log.info("removed %s: it is assigned to nobody", table.path)
            else:
                self._wait_for(table.topic_id, self._clock.now_ms())
                log.warning("%s could not be removed: %s", table.path, error)
        return removed


def _removal(order: ListOrder, table: FoundTable, image: MetadataImage) -> RemoveOrder:
    return RemoveOrder(
        root=order.root,
        directory_id=order.directory_id,
        table=table,
        registered_voters=image.registered_voters,
    )


def _place(order: ListOrder) -> tuple[BrokerId, DirectoryId]:
    return order.broker_id, order.directory_id


def _incarnation(table: FoundTable) -> Incarnation:
    return Incarnation(PartitionKey(table.topic_id, table.partition), table.replica_uuid)


def _delay_ms(image: MetadataImage, key: PartitionKey) -> int:
    """Return how long readers have to finish; a deleted topic has the cluster's setting."""
    return image.settings(key.topic_id).integer("file.delete.delay.ms")


def list_task(order: ListOrder, worker: Worker) -> ListResult:
    """Return the tables on one root. A task."""
    try:
        check_directory(order.root, order.directory_id, worker.options)
        found = tables_on(order.broker_id, order.root, worker.options, order.topic_ids)
        return ListResult(broker_id=order.broker_id, tables=tuple(found))
    except KafkaOnSparkError as error:
        return ListResult(broker_id=order.broker_id, error=error.message)


def remove_task(order: RemoveOrder, worker: Worker) -> str | None:
    """Remove one table; return why it could not be, or None. A task."""
    try:
        remove_table(
            order.root,
            order.directory_id,
            order.table,
            worker.options,
            registered_voters=order.registered_voters,
        )
    except KafkaOnSparkError as error:
        return error.message
    return None
