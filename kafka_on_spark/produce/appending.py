"""One try of a producer's appends: their records are staged in this process, and appended, all
topics at once. What a try's errors mean is decided in produce/delivery.py.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    NO_ERROR,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaOnSparkError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    ProducerFencedError,
    RootAccessDeniedError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.metadata.high_watermark import is_under_min_isr, too_few_in_sync
from kafka_on_spark.metadata.image import MetadataImage, TopicImage, id_of_one_run
from kafka_on_spark.node.services import Services
from kafka_on_spark.produce.delivery import (
    AppendNumber,
    Delivery,
    Outcome,
    PendingPart,
    Refusals,
    is_passing,
)
from kafka_on_spark.produce.sent_record import (
    SentRecord,
    TopicLimits,
    limits_of,
)
from kafka_on_spark.produce.sent_records import batch_of, split_by_partition
from kafka_on_spark.produce.settings import ProducerSettings
from kafka_on_spark.produce.stage_plan import AppendPlan, StagedSegment
from kafka_on_spark.produce.stages import AnsweredPart
from kafka_on_spark.produce.staging import stage_records
from kafka_on_spark.store.accounts import APPEND
from kafka_on_spark.store.clock import new_uuid
from kafka_on_spark.store.requests import operating

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_Staged = tuple[AppendPlan, list[StagedSegment], list[PendingPart]]

Settle = Callable[[Callable[[], list[Outcome]]], object]
"""Is called with what finds outcomes, as soon as there are some; gives records their answers."""

_BEFORE_COMMITS: Final = (
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    ProducerFencedError,
    RootAccessDeniedError,
    UnknownTopicOrPartitionError,
)
"""What refuses a whole append refuses it before its first commit."""

_OF_RECORDS: Final = (InvalidRecordError, InvalidTimestampError, MessageTooLargeError)
"""What refuses a topic's records may be due to one partition's."""


class _Run:
    """The appends of a producer under one id, which no other has."""

    def __init__(self) -> None:
        self.producer_id = id_of_one_run(new_uuid())
        self._sequences = count()

    def next(self) -> AppendNumber:
        """Return the number of the next append."""
        return AppendNumber(self.producer_id, next(self._sequences))


class ProducerAppends:
    """The appends of one producer. One thread begins them; several may try them.

    Attributes:
        limits: What topics allow, by name, as of the last append or the first send.
    """

    def __init__(self, services: Services, settings: ProducerSettings) -> None:
        self._services = services
        self._settings = settings
        self.limits: dict[str, TopicLimits] = {}
        self._run = _Run()
        self._ids = [self.producer_id]
        self._asked = (-1, 0)
        self._leaving = threading.Lock()
        # A process that makes a producer for each request would remember the runs of all. One that
        # was left may have an append under way for as long as a thread has this object.
        weakref.finalize(self, services.producers.forget, self._ids).atexit = False

    @property
    def producer_id(self) -> str:
        """The id of the next append."""
        return self._run.producer_id

    def leave(self, producer_id: str) -> None:
        """Append under a new producer id from now on, if this one is in use."""
        with self._leaving:
            if producer_id != self.producer_id:
                return
            # As a whole: an id with the sequences of another would have appends called duplicates.
            self._run = _Run()
            self._ids.append(self.producer_id)
        log.warning("a producer can't go on under its id; it takes another: %s", self.producer_id)

    def now_ms(self) -> int:
        """Return the time of a record that is sent now.

        It is held to the root's clock once in a millisecond, in which a thread sends a hundred
        records: for each of them that took a third of `send`.
        """
        clock = self._services.clock
        at_ms, now_ms = self._asked
        if at_ms != (monotonic_ms := clock.monotonic_ms()):
            now_ms = clock.now_ms()
            self._asked = monotonic_ms, now_ms
        return now_ms

    def learn(self, topic: str) -> TopicLimits:
        """Return what a topic allows by now.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            ClusterClosedError: This process has closed the cluster.
            KafkaStorageError: The metadata root does not answer.
        """
        with operating(APPEND):
            image = self._services.metadata.catch_up()
        limits = limits_of(image, topic)
        self.limits[topic] = limits
        return limits

    def begin(
        self, topics: Mapping[str, list[SentRecord]], muted: Container[PartitionKey]
    ) -> tuple[AppendNumber, list[PendingPart], list[Outcome]]:
        """Return the number and the partitions of the next append of records, by topic; and the
        outcomes of those whose topics are gone. No keyless one goes to a `muted` partition."""
        image, number = self._services.metadata.image, self._run.next()
        parts: list[PendingPart] = []
        outcomes: list[Outcome] = []
        for name, records in topics.items():
            try:
                topic = image.topic(name)
            except UnknownTopicOrPartitionError as error:
                self.limits.pop(name, None)
                outcomes.append(Outcome(topic=name, partition=None, records=records, error=error))
                continue
            split = _split(topic, records, number, muted)
            parts += [PendingPart(name, key, number, split[key]) for key in sorted(split)]
        return number, parts, outcomes

    def apart(self, parts: Iterable[PendingPart]) -> list[list[PendingPart]]:
        """Return partitions that need the same brokers together: one of these may hang."""
        image = self._services.metadata.image

        def brokers(part: PendingPart) -> Set[BrokerId]:
            partition = image.partition(part.key)
            return partition.isr if partition else frozenset()

        return list(_grouped(parts, brokers).values())

    @operating(APPEND)
    def try_once(self, delivery: Delivery, try_ms: int, settle: Settle) -> None:
        """Try to append what has no answer yet; `settle` what this answers, partition by partition.

        Records that their topics do not allow any more are left out, by the image that the try is
        planned on: an older one does not know what another process has altered, and the try would
        fail whole.
        """
        outcomes: list[Outcome] = []
        try:
            image = self._services.metadata.catch_up()
        except KafkaOnSparkError as error:
            outcomes = delivery.fail(delivery.parts, error, may_be_appended=False)
            settle(lambda: outcomes)
            return
        refusals = self._refusals(image, delivery)
        settle(lambda: delivery.leave_out(refusals))
        try:
            staged = self._staged(image, delivery, try_ms, outcomes)
        finally:  # by a bug, too: nobody else knows of them any more
            settle(lambda: outcomes)
        end_ms = self._services.clock.monotonic_ms() + try_ms
        self._append(delivery, staged, settle, end_ms)

    def _refusals(self, image: MetadataImage, delivery: Delivery) -> Refusals:
        """Return the records that their topics do not allow: settings may have changed since they
        were sent, and `send` checks by them from now on. What is wrong with a topic that is gone,
        `_ready` says."""
        topics = {part.key.topic_id for part in delivery.parts} & image.topics.keys()
        limits = {each: limits_of(image, image.topics[each].name) for each in topics}
        self.limits.update((image.topics[each].name, limits[each]) for each in topics)
        return delivery.refusals(limits, self.now_ms())

    def _staged(
        self, image: MetadataImage, delivery: Delivery, try_ms: int, outcomes: list[Outcome]
    ) -> list[_Staged]:
        """Return what can be appended now, staged; add what is settled already to `outcomes`."""
        staged: list[_Staged] = []
        for number, parts in _grouped(delivery.parts, lambda part: part.number).items():
            # If the id has expired, another run may go on with an append that none has tried yet.
            is_untried = not any(part.may_be_appended for part in parts)
            try:
                run = self._services.producers.begin(
                    number.producer_id, None, number.sequence, is_untried=is_untried
                )
            except KafkaOnSparkError as error:
                outcomes += delivery.fail(parts, error, may_be_appended=False)
                continue
            assert run is not None, "a producer and a sequence are given"
            for topic_id, of_topic in _grouped(parts, lambda part: part.key.topic_id).items():
                ready = self._ready(image, delivery, of_topic, outcomes)
                if not ready:
                    continue
                try:
                    plan = self._services.appends.plan_chosen(
                        image,
                        topic_id,
                        acks=self._settings.acks,
                        producer=run,
                        timeout_ms=try_ms,
                    )
                    staged += self._stage(plan, delivery, ready, outcomes)
                except KafkaOnSparkError as error:
                    outcomes += delivery.fail(ready, error, may_be_appended=False)
        return staged

    def _ready(
        self,
        image: MetadataImage,
        delivery: Delivery,
        parts: Iterable[PendingPart],
        outcomes: list[Outcome],
    ) -> list[PendingPart]:
        """Return the partitions that can be appended to now: one that can't must not have the
        whole append refused."""
        ready = []
        for part in parts:
            partition = image.partition(part.key)
            error: KafkaOnSparkError
            if partition is None:
                error = UnknownTopicOrPartitionError(
                    f"partition {part.topic}-{part.key.partition} was deleted before this append"
                )
            elif self._settings.acks == "all" and is_under_min_isr(
                image, part.key.topic_id, partition
            ):
                error = NotEnoughReplicasError(too_few_in_sync(image, part.key, partition))
            else:
                ready.append(part)
                continue
            outcomes += delivery.fail([part], error, may_be_appended=False)
        return ready

    def _stage(
        self,
        plan: AppendPlan,
        delivery: Delivery,
        parts: list[PendingPart],
        outcomes: list[Outcome],
    ) -> list[_Staged]:
        """Stage a topic's partitions together, or one by one if that fails."""
        batch = batch_of([(each.key.partition, each.records) for each in parts])
        rows = stage_records(
            plan.order,
            [batch],
            self._services.options,
            by_partition=True,
            is_patient=any(each.last_error is not None for each in parts),  # not at a first try
        )
        refused = {row.partition: _refusal(row) for row in rows if row.error_code != NO_ERROR}
        error = refused.get(-1)
        if error is None:
            for each in parts:
                if (alone := refused.get(each.key.partition)) is not None:
                    outcomes += delivery.fail([each], alone, may_be_appended=False)
            staged = [each for each in parts if each.key.partition not in refused]
            of_staged = [row for row in rows if row.partition not in refused]
            return [(plan, of_staged, staged)] if staged else []
        if len(parts) == 1:
            outcomes += delivery.fail(parts, error, may_be_appended=False)
            return []
        apart = [each for part in parts for each in self._stage(plan, delivery, [part], outcomes)]
        rows = [row for _, of_part, _ in apart for row in of_part]
        return [(plan, rows, [part for _, _, [part] in apart])] if apart else []

    def _append(
        self, delivery: Delivery, staged: Sequence[_Staged], settle: Settle, end_ms: int
    ) -> None:
        """Append what was staged; in two halves, if the whole is refused for a part of it.

        They share the time of the try, until `end_ms`: no record expires before all are done, and
        what is sent meanwhile waits for them.
        """
        if not staged:
            return
        left_ms = max(end_ms - self._services.clock.monotonic_ms(), 1)
        appends = [(replace(plan, timeout_ms=left_ms), rows) for plan, rows, _ in staged]

        def take(answer: AnsweredPart) -> None:
            settle(lambda: delivery.answer([answer]))

        try:
            self._services.appends.answer_staged_topics(appends, take)
        except KafkaOnSparkError as error:
            is_certain = isinstance(error, _BEFORE_COMMITS)
            halves = _split_refused(staged, error) if is_certain and not is_passing(error) else []
            if halves:
                log.info("a producer's append is split: %s", error)
                for each in halves:
                    self._append(delivery, each, settle, end_ms)
                return
            parts = [part for _, _, parts in staged for part in parts]
            failures = delivery.fail(parts, error, may_be_appended=not is_certain)
            settle(lambda: failures)


def _grouped(
    parts: Iterable[PendingPart], key: Callable[[PendingPart], _T]
) -> dict[_T, list[PendingPart]]:
    found: dict[_T, list[PendingPart]] = {}
    for part in parts:
        found.setdefault(key(part), []).append(part)
    return found


def _split(
    topic: TopicImage,
    records: Sequence[SentRecord],
    number: AppendNumber,
    muted: Container[PartitionKey],
) -> dict[PartitionKey, list[SentRecord]]:
    numbers = sorted(topic.partitions)
    keys = [PartitionKey(topic.topic_id, each) for each in numbers]
    led = [each for each in keys if topic.partitions[each.partition].leader is not None] or keys
    open_keys = [each for each in led if each not in muted] or led
    sticky = open_keys[number.sequence % len(open_keys)].partition
    split = split_by_partition(records, len(numbers), sticky)
    return {PartitionKey(topic.topic_id, each): split[each] for each in split}


def _split_refused(
    staged: Sequence[_Staged], error: KafkaOnSparkError
) -> Sequence[Sequence[_Staged]]:
    """Return the halves of an append's topics, or else of a topic's partitions: `error` may be of
    one of them. It is so of records that a retry has to bring though their topic does not allow
    them any more. By halves, for that one is found by far fewer appends than one for each takes."""
    if len(staged) > 1:
        return _halves(staged)
    [(plan, rows, parts)] = staged
    if len(parts) == 1 or not isinstance(error, _OF_RECORDS):
        return []
    found = []
    for half in _halves(parts):
        numbers = {part.key.partition for part in half}
        found.append([(plan, [row for row in rows if row.partition in numbers], [*half])])
    return found


def _halves(items: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T]]:
    middle = len(items) // 2
    return items[:middle], items[middle:]


def _refusal(row: StagedSegment) -> KafkaOnSparkError:
    return ERROR_BY_CODE.get(row.error_code, KafkaStorageError)(row.error or "refused")
