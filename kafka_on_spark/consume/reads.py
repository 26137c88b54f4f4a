"""Reads of committed records by one process: from which replicas, and what follows a failure."""

from collections.abc import Container, Generator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.evidence import is_evidence
from kafka_on_spark.log.read_order import ReadOrder, after_others, plan_reads
from kafka_on_spark.log.reading import (
    Handling,
    count_records,
    pass_deleted,
    read_rows,
    refuse_deleted,
)
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.node.node import THREADS, Node
from kafka_on_spark.store.deadlines import DaemonThreads

if TYPE_CHECKING:
    import pyarrow as pa


def handling_of(node: Node) -> Handling:
    """Return what follows where a replica can't be read: it is inspected a second time, or its
    leader compacted."""
    return {"note": partial(_note, node), "finish_compaction": partial(_finish_compaction, node)}


def _note(
    node: Node, address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
) -> None:
    if is_evidence(error):
        # In the function, here and below: most reads find nothing bad, and no such leader.
        from kafka_on_spark.controller.inspections import Finding, SecondInspections

        node.part(SecondInspections).record_finding(Finding.of(address, segment))


def _finish_compaction(node: Node, order: ReadOrder) -> None:
    from kafka_on_spark.controller.replication_round import finish_compaction

    finish_compaction(node, order)


class ReadThreads:
    """Threads for reads of partitions side by side. What else waits for a task would wait for reads
    that wait for it."""

    def __init__(self, _: Node) -> None:
        self.pool = DaemonThreads(THREADS, "read")

    def close(self) -> None:
        self.pool.shutdown(wait=False)


class Reads:
    """Reads of the newest records; or of those that were committed by `past`, which change nothing:
    what they find bad says nothing of now."""

    def __init__(self, node: Node, past: MetadataImage | None = None) -> None:
        self.node = node
        self.handling: Handling = handling_of(node) if past is None else {}
        self._past = past
        self._loading: dict[ReplicaAddress, Future[ReplicaState]] = {}

    def plan(
        self,
        topic: str,
        start: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
        *,
        is_whole: bool = False,
    ) -> list[ReadOrder]:
        """Return one order a partition that has committed records between `start` and `end`; raise
        as `plan_reads`. `is_whole`: all of them are read right after this."""
        if self._past is not None:
            now = self.node.metadata.catch_up()
            return plan_reads(self._past, topic, start, end, now=now)
        if is_whole and self.node.metadata.is_far:
            self._begin_loading(topic, start, end)
        return self._orders(self.node.metadata.catch_up(), topic, start, end)

    def _orders(self, image: MetadataImage, *given: Any) -> list[ReadOrder]:
        orders, bad = plan_reads(image, *given), self.node.metadata.suspects
        return [after_others(each, bad) for each in orders] if bad else orders

    def _begin_loading(self, *given: Any) -> None:
        """Begin to load the logs that are likely to be read, by what this process knows, while it
        catches up: a store's answers take long."""
        try:
            orders = self._orders(self.node.metadata.image, *given)
        except KafkaOnSparkError:
            return  # the newest image tells
        replicas, pool = self.node.tasks.worker.replicas, self.node.part(ReadThreads).pool
        for address in {each.candidates[0] for each in orders if each.candidates}:
            self._loading[address] = pool.submit(replicas.open(address).load)

    def _loaded(self, order: ReadOrder) -> ReplicaState | KafkaOnSparkError | None:
        """Return the log that an order is read from first, or why it can't be loaded, if that was
        begun since it was asked for: a replica that has all of the order has it since."""
        loading = self._loading.pop(order.candidates[0], None) if order.candidates else None
        try:
            return None if loading is None else loading.result()
        except KafkaOnSparkError as error:
            return error

    def all_rows(
        self, orders: Sequence[ReadOrder], asked: Container[int]
    ) -> "list[pa.RecordBatch]":
        """Return the records of orders, in their order; of partitions on stores they are read side
        by side. `asked`: partitions whose first offset was asked for, as in `rows`."""

        def read(order: ReadOrder) -> "list[pa.RecordBatch]":
            return list(self.rows(order, is_asked=order.name.partition in asked))

        is_far = self.node.metadata.is_far
        run = self.node.part(ReadThreads).pool.map if is_far and len(orders) > 1 else map
        return [batch for batches in run(read, orders) for batch in batches]

    def rows(
        self, order: ReadOrder, *, is_asked: bool = True, **columns: Any
    ) -> "Generator[pa.RecordBatch, None, None]":
        """Yield the records of an order. `is_asked`: its first offset was asked for, so that a
        record that was deleted is an error; otherwise it is passed over."""
        on_deleted = refuse_deleted if is_asked else pass_deleted
        columns = {**columns, **self.handling, "on_deleted": on_deleted}
        worker = self.node.tasks.worker
        loaded = self._loaded(order)
        return read_rows(order, worker.replicas, worker.options, loaded=loaded, **columns)

    def count(self, order: ReadOrder, *, is_asked: bool) -> int:
        """Return how many records `rows` would yield, by the headers of their batches."""
        node, on_deleted = self.node, refuse_deleted if is_asked else pass_deleted
        handling: Handling = {**self.handling, "on_deleted": on_deleted}
        return count_records(order, node.replicas, node.options, **handling)

    def end(self) -> None:
        """Have what was found bad inspected a second time, after the answer."""
        if self._past is None and self.node.metadata.suspects:
            from kafka_on_spark.controller.inspections import inspect_findings

            inspect_findings(self.node)
