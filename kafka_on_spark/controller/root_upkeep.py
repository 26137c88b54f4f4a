"""Upkeep of brokers' roots: what killed processes left there. Metadata roots are cleaned with it on
request only: who writes a checkpoint of the metadata log cleans it.

Apart from replicas, which have an order each: a root is cleaned as a whole, and seldom, by a
process that has made rounds for an interval.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import BrokerId, DirectoryId
from kafka_on_spark.controller.upkeep_report import UpkeepRow
from kafka_on_spark.log.replica_folders import tables_on
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.temporaries import clean_broker_root
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.root_identity import check_obeys
from kafka_on_spark.store.roots import is_local

log = logging.getLogger(__name__)

INTERVAL_MS: Final = 3_600_000
"""How often the roots of brokers are cleaned."""

METADATA: Final = "__cluster_metadata"

CLEAN: Final = "clean"
"""The kind of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitOrder:
    """Which broker's root to clean of what killed processes left. Picklable.

    `begins_at`: where an earlier visit has left it; "": nowhere. `work_ms_max`: how long the task
    may work; it ends the folder that it is at. `registered_voters`: of the metadata log, all that
    it ever had: the root must obey one.
    """

    broker_id: BrokerId
    root: str
    directory_id: DirectoryId
    begins_at: str = ""
    work_ms_max: float | None = None
    registered_voters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitResult:
    """Where the next visit begins, since the time was over ("": all was cleaned), and why the root,
    or a part of it, was not cleaned."""

    left_at: str = ""
    error: str | None = None


class RootUpkeep:
    """The upkeep of roots by one process. Its user calls one method at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata = node.metadata
        self._clock = node.clock
        self._began_ms: dict[BrokerId, int] = {}
        self._left: dict[BrokerId, str] = {}

    def run_share(self, work_ms_max: float) -> list[UpkeepRow]:
        """Clean the roots that are due, for so long, but for the piece that it is at; what is left
        goes on with the next call. Return a row for each that failed.

        A root is due an interval after this process first knew of it, or last began to clean it.
        """
        image, began_ms = self._metadata.image, self._clock.monotonic_ms()
        rows: list[UpkeepRow] = []
        for broker in sorted(_brokers(image), key=lambda each: each.broker_id not in self._left):
            broker_id, now_ms = broker.broker_id, self._clock.monotonic_ms()
            last_ms = self._began_ms.setdefault(broker_id, now_ms)
            if broker_id not in self._left:
                if now_ms - last_ms < INTERVAL_MS:
                    continue
                self._began_ms[broker_id] = now_ms
            left_ms = work_ms_max - (now_ms - began_ms)
            if left_ms <= 0:
                self._left.setdefault(broker_id, "")
                continue
            begins_at = self._left.pop(broker_id, "")
            rows += self._clean(image, [broker], begins_at=begins_at, work_ms_max=left_ms)
        return rows

    def run(self) -> list[UpkeepRow]:
        """Clean all roots, and the metadata's. Return a row for each that failed, and for what went
        from the metadata's."""
        image, brokers = self._metadata.image, _brokers(self._metadata.image)
        self._left.clear()
        self._began_ms |= {each.broker_id: self._clock.monotonic_ms() for each in brokers}
        rows = self._clean(image, brokers)
        try:
            count = self._metadata.clean()
            rows += [_row(METADATA, count=count)] if count else []
        except KafkaOnSparkError as error:
            rows.append(_row(METADATA, error=error.message))
            log.warning("%s", rows[-1])
        return rows

    def _clean(
        self,
        image: MetadataImage,
        brokers: Sequence[BrokerRegistration],
        *,
        begins_at: str = "",
        work_ms_max: float | None = None,
    ) -> list[UpkeepRow]:
        orders = [
            VisitOrder(
                broker_id=broker.broker_id,
                root=broker.root,
                directory_id=broker.directory_id,
                begins_at=begins_at,
                work_ms_max=work_ms_max,
                registered_voters=image.registered_voters,
            )
            for broker in brokers
        ]
        try:
            results = self._node.tasks.run_or_lose(visit_task, orders)
        except KafkaOnSparkError as error:
            results = [VisitResult(error=error.message)] * len(orders)
        rows = []
        for order, result in zip(orders, results, strict=True):
            if result.left_at:
                self._left[order.broker_id] = result.left_at
            if result.error is not None:
                rows.append(_row("", order.broker_id, error=result.error))
                log.warning("%s", rows[-1])
        return rows


def _row(
    topic: str, broker_id: BrokerId | None = None, *, count: int = 0, error: str = ""
) -> UpkeepRow:
    return UpkeepRow(
        topic=topic,
        partition=0 if topic else -1,
        broker_id=broker_id,
        kind=CLEAN,
        count=count,
        what="files deleted",
        error=error,
    )


def _brokers(image: MetadataImage) -> list[BrokerRegistration]:
    return [broker for broker in image.brokers.values() if broker.has_upkeep]


def visit_task(order: VisitOrder, worker: Worker) -> VisitResult:
    """Remove what killed processes left on one root; a store is asked for no replica folders, since
    nothing is left there. A task."""
    clock, options = worker.clock, worker.options
    began_ms = clock.monotonic_ms()

    def is_over() -> bool:
        most_ms = order.work_ms_max
        return most_ms is not None and clock.monotonic_ms() - began_ms >= most_ms

    try:
        check_obeys(order.root, order.directory_id, order.registered_voters, options)
        found = (
            tables_on(order.broker_id, order.root, options, None) if is_local(order.root) else ()
        )
        cleaned = clean_broker_root(
            order.root,
            [each.path for each in found],
            options,
            begins_at=order.begins_at,
            is_over=is_over,
        )
    except KafkaOnSparkError as error:
        return VisitResult(error=error.message)
    return VisitResult(left_at=cleaned.left_at, error=cleaned.error)
