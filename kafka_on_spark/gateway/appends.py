"""Appends of produce requests: what waits for a topic goes into one append, in the order in which
it came.

What is sent to one partition without a producer is put together. Of idempotent producers an append
has for each partition the batches of one that follow each other: where they come again, alone or
otherwise put together, the log knows them by their sequences.
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
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.replication_round import replicate
from kafka_on_spark.gateway.gateways import Gateways
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

GATHERED_PART: Final = 8
GATHERED_MS_MAX: Final = 10
"""Requests are gathered for so long after an append, as a part of its time: clients have five under
way each, and would have half of them in each of two appends."""

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

    def may_follow(self, before: "Waiting") -> bool:
        """Return whether it may stand in one append with what came before it."""
        if not self.is_idempotent or not before.is_idempotent:
            return self.is_idempotent == before.is_idempotent
        mine, last = self.batch, before.batch
        is_same = (mine.producer_id, mine.producer_epoch) == (last.producer_id, last.producer_epoch)
        return is_same and mine.base_sequence == last.base_sequence + last.last_offset_delta + 1


@dataclass(slots=True)
class _Unit:
    """What one append has for one partition."""

    parts: list[Waiting] = field(default_factory=list)
    run: ProducerRun | None = None
    is_to_split: bool = False

    def fail(self, error: KafkaOnSparkError) -> None:
        for each in self.parts:
            each.answer(Appended(error=error))

    def take(self, appended: PartitionBatch) -> None:
        if isinstance(appended.error, OutOfOrderSequenceError) and len(self.parts) > 1:
            self.is_to_split = True  # some of them may stand
            return
        if appended.error is not None:
            self.fail(appended.error)
            return
        base = -1 if appended.base_offset is None else int(appended.base_offset)
        if base >= 0 and self.run is not None and (stands := appended.appended) is not None:
            stamp = stands.last if stands.batch is None else stands.batch.producer
            base += 0 if stamp is None else (self.run.sequence - stamp.sequence) % _SEQUENCES
        for each in self.parts:
            each.answer(Appended(base, appended.append_time_ms))
            base += each.rows.num_rows if base >= 0 and each.rows is not None else 0


class Appends:
    """The appends of a gateway. `after` is called after each."""

    def __init__(self, node: Node, gateways: Gateways, after: Callable[[], object]) -> None:
        self._node = node
        self._gateways = gateways
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
        clock = self._node.clock
        while parts := self._next(topic):
            began_ms = clock.monotonic_ms()
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
            # What was answered brings the next requests: they go with those that wait.
            took_ms = clock.monotonic_ms() - began_ms
            clock.sleep_ms(min(took_ms / GATHERED_PART, GATHERED_MS_MAX))

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
        last: dict[int, Waiting] = {}
        left: deque[Waiting] = deque()
        size = 0
        with self._lock:
            for each in self._waiting[topic]:
                _read_header(each)
                fits = not taken or size + len(each.content) <= APPEND_BYTES_MAX
                is_alike = not taken or each.acks == taken[0].acks
                before = last.get(each.partition, each)
                may_join = before is each or each.may_follow(before)
                if each.partition in closed or not (fits and is_alike and may_join):
                    closed.add(each.partition)
                    left.append(each)
                    continue
                last[each.partition] = each
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
                if not self._gateways.leads(image, PartitionKey(topic.topic_id, each.partition)):
                    raise NotLeaderOrFollowerError("another gateway leads the partition")
                if each.rows is None:  # a batch is read once
                    each.rows = rows_of(each.partition, each.batch)
                unit = units.setdefault(each.partition, _Unit())
                if each.is_idempotent and unit.run is None:
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
        node, first_unit = self._node, next(iter(units.values()))
        first = first_unit.parts[0]
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
            is_alone = len(units) == 1 and len(first_unit.parts) == 1
            for unit in units.values():
                unit.is_to_split = isinstance(error, _OF_RECORDS) and not is_alone
                if not unit.is_to_split:
                    unit.fail(error)
        split = [each for unit in units.values() if unit.is_to_split for each in unit.parts]
        for each in split:
            self._append(topic.name, [each])


_SEQUENCES: Final = 2**31

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
