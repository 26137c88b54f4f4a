"""Reads of committed records by one process: from which replicas, and what follows a failure."""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.controller.inspections import (
    SecondInspections,
    note_findings,
    suspects,
)
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.read_order import ReadOrder, after_others, plan_reads
from kafka_on_spark.log.reading import (
    Handling,
    count_records,
    pass_deleted,
    read_rows,
    refuse_deleted,
)
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.node.node import Node

if TYPE_CHECKING:
    import pyarrow as pa


class Reads:
    """Reads of the newest records; or of those that were committed by `past`, which change nothing:
    what they find bad says nothing of now."""

    def __init__(self, node: Node, past: MetadataImage | None = None) -> None:
        self.node = node
        self._past = past

    def plan(
        self,
        topic: str,
        start: Mapping[int, int] | None = None,
        end: Mapping[int, int] | None = None,
    ) -> list[ReadOrder]:
        """Return one order a partition that has committed records between `start` and `end`.

        Raises: as `plan_reads`.
        """
        now = self.node.metadata.catch_up()
        if self._past is not None:
            return plan_reads(self._past, topic, start, end, now=now)
        return [
            after_others(each, suspects(self.node)) for each in plan_reads(now, topic, start, end)
        ]

    def rows(
        self, order: ReadOrder, *, is_asked: bool = True, **columns: Any
    ) -> "Generator[pa.RecordBatch, None, None]":
        """Yield the records of an order. `is_asked`: its first offset was asked for, so that a
        record that was deleted is an error; otherwise it is passed over."""
        worker = self.node.tasks.worker
        return read_rows(
            order, worker.replicas, worker.options, **columns, **self._handling(is_asked)
        )

    def count(self, order: ReadOrder, *, is_asked: bool) -> int:
        """Return how many records `rows` would yield, by the headers of their batches."""
        worker = self.node.tasks.worker
        return count_records(order, worker.replicas, worker.options, **self._handling(is_asked))

    def _handling(self, is_asked: bool) -> Handling:
        return {
            "note": self._note,
            "on_deleted": refuse_deleted if is_asked else pass_deleted,
            "finish_compaction": self.finish_compaction,
        }

    def _note(
        self, address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
    ) -> None:
        if self._past is None:
            self.node.part(SecondInspections).record_unread(address, segment, error)

    def finish_compaction(self, order: ReadOrder) -> None:
        """Have a leader compacted that can't be read before."""
        if self._past is None:
            # In the function: a read that finds no such leader needs nothing of what keeps logs.
            from kafka_on_spark.controller.replication_round import finish_compaction

            finish_compaction(self.node, order)

    def end(self) -> None:
        """Have what was found bad inspected a second time, after the answer."""
        if self._past is None:
            note_findings(self.node)
