"""Stop and delete: tables of replicas that are nobody's any more are removed from the roots.

List first, catch up on the metadata second, and remove only what was listed, once was assigned
and is assigned to nobody now (DESIGN §2; `controller/cleaning.py` says why that is safe). A removal
that is lost, or whose disk is away, is found again: by a full look at each broker that this process
has not looked at since it came back. Readers have file.delete.delay.ms to end what they read. A
broker that is unregistered has no root any more that anybody would look at: its root is emptied
before.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from kafka_on_spark.audit.orphans import FoundTable
from kafka_on_spark.controller.cleaning import Making, is_assigned, taken_away, times_taken_away
from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.ids import BrokerId, DirectoryId, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock
from kafka_on_spark.service.metadata_service import MetadataService

log = logging.getLogger(__name__)

REMOVALS_AT_ONCE: Final = 64
"""Tables removed between two looks at the metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOrder:
    """Which root to list; `topic_ids`: only the folders of these topics."""

    broker_id: BrokerId
    root: str
    directory_id: DirectoryId
    topic_ids: frozenset[TopicId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """One row: the tables on a root, or why it could not be listed."""

    broker_id: BrokerId
    tables: tuple[FoundTable, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrder:
    """Which table to remove; the root must be the disk that it was when it was listed."""

    root: str
    directory_id: DirectoryId
    table: FoundTable


RunLists = Callable[[Sequence[ListOrder]], list[ListResult]]
RunRemoves = Callable[[Sequence[RemoveOrder]], list[str | None]]
CheckControls = Callable[[MetadataImage], None]


class Cleaner:
    """What one process knows of tables to remove. Threads may share it; they take turns."""

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        *,
        run_lists: RunLists,
        run_removes: RunRemoves,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._run_lists = run_lists
        self._run_removes = run_removes
        self._lock = threading.Lock()
        self._seen: MetadataImage | None = None
        self._times: dict[Making, int] = {}
        self._strangers: set[Making] = set()
        self._due_ms: dict[TopicId, int] = {}
        self._looked_at: set[tuple[BrokerId, DirectoryId]] = set()

    def clean(self, check_controls: CheckControls) -> int:
        """Remove what is due; return how many tables. A root that fails is asked again.

        Raises:
            NotControllerError: `check_controls` says that another controller has taken over.
        """
        with self._lock:
            return self._clean(check_controls)

    def _clean(self, check_controls: CheckControls) -> int:
        image = self._take_note()
        topic_ids = self._topics_due()
        orders = self._orders(image, topic_ids)
        if not orders:
            return 0
        for topic_id in topic_ids:
            del self._due_ms[topic_id]
        results = self._run_lists(orders)
        for order, result in zip(orders, results, strict=True):
            self._note_listing(order, result)
        image = self._take_note()  # after the listing: what was being made is in it
        roots = {order.broker_id: order for order in orders}
        removals = [
            RemoveOrder(root=order.root, directory_id=order.directory_id, table=table)
            for table in self._due(image, [each for result in results for each in result.tables])
            for order in [roots[table.broker_id]]
        ]
        duration_ms = image.settings().integer("broker.heartbeat.interval.ms")
        removed = self._remove_all(removals, check_controls, duration_ms=duration_ms)
        self._forget(topic_ids)
        return removed

    def empty(self, broker_id: BrokerId) -> int:
        """Remove all that is nobody's from a broker's root, due or not; return how many tables.

        For a broker that is about to be unregistered. Of a root that does not answer nothing is
        removed: should it come again, under any id, it is looked at as a whole.
        """
        with self._lock:
            broker = self._take_note().brokers.get(broker_id)
            if broker is None or not broker.is_online:
                return 0
            order = ListOrder(
                broker_id=broker_id,
                root=broker.root,
                directory_id=broker.directory_id,
                topic_ids=None,
            )
            [result] = self._run_lists([order])
            self._note_listing(order, result)
            found = self._nobodys(self._take_note(), result.tables)
            orders = [
                RemoveOrder(root=order.root, directory_id=order.directory_id, table=table)
                for table, _ in found
            ]
            return self._remove_all(orders, lambda image: None, duration_ms=inf)

    def _take_note(self) -> MetadataImage:
        """Catch up, and take note of the replicas that were taken away since."""
        image = self._metadata.catch_up()
        if self._seen is not None and self._seen.offset < image.offset:
            batches = self._metadata.batches(self._seen.offset, image.offset)
            for making, time_ms in taken_away(self._seen, batches):
                self._times[making] = time_ms
                self._strangers.discard(making)
                self._wait_for(making.key.topic_id, time_ms + _delay_ms(image, making.key))
        self._seen = image
        return image

    def _wait_for(self, topic_id: TopicId, due_ms: int) -> None:
        self._due_ms[topic_id] = min(due_ms, self._due_ms.get(topic_id, due_ms))

    def _forget(self, topic_ids: frozenset[TopicId]) -> None:
        """Drop what is known of topics that are done with; of what comes again the log knows."""
        over = topic_ids - self._due_ms.keys()
        for making in [each for each in self._times if each.key.topic_id in over]:
            del self._times[making]

    def _topics_due(self) -> frozenset[TopicId]:
        now_ms = self._clock.now_ms()
        return frozenset(topic_id for topic_id, due in self._due_ms.items() if due <= now_ms)

    def _orders(self, image: MetadataImage, topic_ids: frozenset[TopicId]) -> list[ListOrder]:
        """Return whom to list: brokers that came (back), all of them; the others by topics."""
        online = [image.brokers[each] for each in sorted(image.brokers)]
        online = [broker for broker in online if broker.is_online]
        self._looked_at &= {(broker.broker_id, broker.directory_id) for broker in online}
        known = {broker_id for broker_id, _ in self._looked_at}
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
        place = (order.broker_id, order.directory_id)
        if result.error is None:
            self._looked_at.add(place)
            return
        self._looked_at.discard(place)  # what was missed now is found by a full look
        log.warning("broker %s could not be listed: %s", order.broker_id, result.error)

    def _due(self, image: MetadataImage, tables: Iterable[FoundTable]) -> list[FoundTable]:
        """Return the tables that are nobody's, and have been for long enough."""
        now_ms = self._clock.now_ms()
        due = []
        for table, since_ms in self._nobodys(image, tables):
            due_ms = since_ms + _delay_ms(image, _making(table).key)
            if due_ms <= now_ms:
                due.append(table)
            else:
                self._wait_for(table.topic_id, due_ms)
        return due

    def _nobodys(
        self, image: MetadataImage, tables: Iterable[FoundTable]
    ) -> list[tuple[FoundTable, int]]:
        """Return the tables that are nobody's any more, and since when (ms since 1970 UTC)."""
        found = {
            making: table
            for table in tables
            if not is_assigned(image, making := _making(table)) and making not in self._strangers
        }
        self._look_up([making for making in found if making not in self._times])
        return [
            (table, self._times[making]) for making, table in found.items() if making in self._times
        ]

    def _look_up(self, makings: Sequence[Making]) -> None:
        """Learn from the log when replicas were taken away that this process has not seen go."""
        if not makings:
            return
        try:
            times = times_taken_away(self._metadata.pieces(), frozenset(makings))
        except (CorruptLogError, KafkaStorageError) as error:
            log.warning(
                "%d tables are left alone: no history to judge them by: %s", len(makings), error
            )
            return
        self._times |= times
        strangers = [each for each in makings if each not in times]
        self._strangers.update(strangers)
        if strangers:
            log.warning(
                "%d tables are of replicas that the metadata log has never heard of, such as %s:"
                " they are left alone",
                len(strangers),
                strangers[0],
            )

    def _remove_all(
        self,
        orders: Sequence[RemoveOrder],
        check_controls: CheckControls,
        *,
        duration_ms: float,
    ) -> int:
        """Remove tables for about as long as a pass may take; the rest is left to the next one.

        A controller that does not come to renew its lease is taken for dead.
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
        """Remove tables, if they are nobody's by the metadata of now; return how many."""
        image = self._take_note()
        check_controls(image)
        orders = [order for order in orders if not is_assigned(image, _making(order.table))]
        removed = 0
        for order, error in zip(orders, self._run_removes(orders), strict=True):
            table = order.table
            if error is None:
                removed += 1
                self._times.pop(_making(table), None)
                log.info("removed %s: it is assigned to nobody", table.path)
            else:
                self._wait_for(table.topic_id, self._clock.now_ms())
                log.warning("%s could not be removed: %s", table.path, error)
        return removed


def _making(table: FoundTable) -> Making:
    return Making(PartitionKey(table.topic_id, table.partition), table.replica_uuid)


def _delay_ms(image: MetadataImage, key: PartitionKey) -> int:
    """Return how long readers have; a topic that is gone has the cluster's setting."""
    return image.settings(key.topic_id).integer("file.delete.delay.ms")
