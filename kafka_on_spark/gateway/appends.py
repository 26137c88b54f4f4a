"""Appends of produce requests: what waits for a topic goes into one append, in the order in which
it came.

A batch of an idempotent producer keeps its borders, and is an append of its own; an append has one
of them at most for each partition. What others send to a partition is put together.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    KafkaOnSparkError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.replication_round import replicate
from kafka_on_spark.gateway.producers import run_of
from kafka_on_spark.gateway.record_batches import batch_in, rows_of
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.reports import is_under_min_isr, too_few_in_sync
from kafka_on_spark.node.node import Node
from kafka_on_spark.produce.append import answer_staged
from kafka_on_spark.produce.leader_log import PartitionBatch
from kafka_on_spark.produce.staging import AppendPlan, ProducerRun, plan_stage, stage_records
from kafka_on_spark.store.counts import APPEND, operating
from kafka_on_spark.store.deadlines import DaemonThreads

log = logging.getLogger(__name__)

APPEND_BYTES_MAX: Final = 32 << 20
"""What one append takes of what waits; more waits for the next one."""

THREADS: Final = 16
"""Topics that are appended to at one time."""

_OF_RECORDS: Final = (InvalidRecordError, InvalidTimestampError, MessageTooLargeError)
"""What refuses a whole append for some of its records, before anything is appended."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a partition's records stand: from `base_offset` on, -1 if that is not known; or why
    they do not, or may not. `time_ms`: of their append, if that counts for them."""

    base_offset: int = -1
    time_ms: int | None = None
    error: KafkaOnSparkError | None = None


@dataclass(slots=True)
class Waiting:
    """What one request has for one partition. `answer` is called once, in any thread."""

    partition: int
    content: bytes
    acks: int
    timeout_ms: int
    answer: Callable[[Appended], object]
    batch: Any = None
    rows: pa.RecordBatch | None = None

    @property
    def is_idempotent(self) -> bool:
        return getattr(self.batch, "producer_id", -1) >= 0


@dataclass(slots=True)
class _Unit:
    """What one append has for one partition."""

    parts: list[Waiting] = field(default_factory=list)
    run: ProducerRun | None = None

    def fail(self, error: KafkaOnSparkError) -> None:
        for each in self.parts:
            each.answer(Appended(error=error))

    def take(self, appended: PartitionBatch) -> None:
        if appended.error is not None:
            self.fail(appended.error)
            return
        base = -1 if appended.base_offset is None else int(appended.base_offset)
        for each in self.parts:
            each.answer(Appended(base, appended.append_time_ms))
            base += each.rows.num_rows if base >= 0 and each.rows is not None else 0


class Appends:
    """The appends of a gateway. `after` is called after each."""

    def __init__(self, node: Node, after: Callable[[], object]) -> None:
        self._node = node
        self._after = after
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Waiting]] = {}  # of the topics that a thread appends to
        self._replicating: set[str] = set()  # topics whose followers are soon to fetch
        self._threads = DaemonThreads(THREADS, "gateway-append")

    def add(self, topic: str, parts: Sequence[Waiting]) -> None:
        """Append what a request has for a topic, behind what came before."""
        with self._lock:
            waiting = self._waiting.get(topic)
            if waiting is not None:
                waiting.extend(parts)
                return
            self._waiting[topic] = deque(parts)
        self._threads.submit(self._append_all, topic)

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _append_all(self, topic: str) -> None:
        while parts := self._next(topic):
            try:
                self._append(topic, parts)
                if parts[0].acks != -1:
                    self._have_replicated(topic)
            except BaseException as error:
                log.exception("an append to %r has failed", topic)
                why = error if isinstance(error, KafkaOnSparkError) else _FAILED
                for each in parts:
                    each.answer(Appended(error=why))
            self._after()

    def _have_replicated(self, topic: str) -> None:
        """Have followers fetch what no client waits for, so that consumers see it soon."""
        with self._lock:
            if topic in self._replicating:
                return
            self._replicating.add(topic)
        self._threads.submit(self._replicate, topic)

    def _replicate(self, topic: str) -> None:
        with self._lock:
            self._replicating.discard(topic)
        try:
            replicate(self._node, topic)
        except KafkaOnSparkError as error:
            log.info("followers of %r are left to the next round: %s", topic, error)
        self._after()

    def _next(self, topic: str) -> list[Waiting]:
        """Return what the next append takes of what waits, all with the same acks; nothing: the
        topic has no thread any more. What is left of a partition stays behind in its order."""
        taken: list[Waiting] = []
        closed: set[int] = set()  # partitions that take nothing more
        left: deque[Waiting] = deque()
        size = 0
        with self._lock:
            for each in self._waiting[topic]:
                _read_header(each)
                is_first = all(other.partition != each.partition for other in taken)
                fits = not taken or size + len(each.content) <= APPEND_BYTES_MAX
                is_alike = not taken or each.acks == taken[0].acks
                may_join = is_first or not each.is_idempotent
                if each.partition in closed or not (fits and is_alike and may_join):
                    closed.add(each.partition)
                    left.append(each)
                    continue
                if each.is_idempotent:
                    closed.add(each.partition)
                taken.append(each)
                size += len(each.content)
            if taken:
                self._waiting[topic] = left
            else:
                del self._waiting[topic]
        return taken

    @operating(APPEND)
    def _append(self, name: str, parts: Sequence[Waiting]) -> None:
        node, units = self._node, dict[int, _Unit]()
        try:
            image = node.metadata.catch_up()
            topic = image.topic(name)
        except KafkaOnSparkError as error:
            _Unit(list(parts)).fail(error)
            return
        for each in parts:
            try:
                _check_partition(image, topic, each)
                each.rows = rows_of(each.partition, each.batch)
                unit = units.setdefault(each.partition, _Unit())
                if each.is_idempotent:
                    batch = each.batch
                    ids = batch.producer_id, batch.producer_epoch, batch.base_sequence
                    unit.run = run_of(node, *ids)
                unit.parts.append(each)
            except KafkaOnSparkError as error:
                each.answer(Appended(error=error))
        ready = {number: unit for number, unit in units.items() if unit.parts}
        if ready:
            self._append_units(image, topic, ready)

    def _append_units(
        self, image: MetadataImage, topic: TopicImage, units: dict[int, _Unit]
    ) -> None:
        node, first = self._node, next(iter(units.values())).parts[0]
        acks = "all" if first.acks == -1 else str(first.acks)
        try:
            order = plan_stage(
                image,
                topic,
                acks=acks,
                has_producer=any(each.run is not None for each in units.values()),
                now_ms=node.clock.now_ms(),
                needs_min_isr=False,
            )
            rows = [each.rows for unit in units.values() for each in unit.parts]
            staged = stage_records(order, [_together(rows)], node.options, is_patient=False)
            refusal = next((each.refusal for each in staged if each.refusal is not None), None)
            if refusal is not None:
                raise refusal
            answer_staged(
                node,
                [
                    (
                        AppendPlan(
                            topic_id=topic.topic_id,
                            topic=topic.name,
                            order=order,
                            acks=acks,
                            producer=unit.run,
                            timeout_ms=max(each.timeout_ms for each in unit.parts),
                            is_by_partition=True,
                        ),
                        [each for each in staged if each.partition == number],
                    )
                    for number, unit in units.items()
                ],
                lambda appended: units[appended.key.partition].take(appended),
            )
        except KafkaOnSparkError as error:
            if len(units) > 1 and isinstance(error, _OF_RECORDS):
                for number, unit in units.items():
                    self._append_units(image, topic, {number: unit})
                return
            for unit in units.values():
                if len(unit.parts) > 1 and isinstance(error, _OF_RECORDS):
                    for each in unit.parts:
                        self._append_units(image, topic, {each.partition: _Unit([each])})
                else:
                    unit.fail(error)


_FAILED: Final = KafkaOnSparkError("the gateway has failed: its log says why")


def _together(rows: Sequence[pa.RecordBatch | None]) -> pa.RecordBatch:
    [batch] = (
        pa.Table.from_batches([each for each in rows if each is not None])
        .combine_chunks()
        .to_batches()
    )
    return batch


def _read_header(part: Waiting) -> None:
    if part.batch is None:
        try:
            part.batch = batch_in(part.content)
        except KafkaOnSparkError as error:
            part.batch = error


def _check_partition(image: MetadataImage, topic: TopicImage, part: Waiting) -> None:
    """Check that a part can be appended now: one that can't must not refuse the others."""
    if isinstance(part.batch, KafkaOnSparkError):
        raise part.batch
    partition = topic.partitions.get(part.partition)
    if partition is None:
        raise UnknownTopicOrPartitionError(
            f"topic {topic.name!r} has no partition {part.partition}"
        )
    if part.acks == -1 and is_under_min_isr(image, topic.topic_id, partition):
        key = PartitionKey(topic.topic_id, part.partition)
        raise NotEnoughReplicasError(too_few_in_sync(image, key, partition))
