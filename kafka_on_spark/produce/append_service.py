"""An append from plan to answer: staged → placed → appended → acknowledged (see stages.py).

Between `plan` and `append_staged`, tasks stage segments: those of a Spark job, of a data source's
writer, or of this process.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from kafka_on_spark.base.back_off import pauses_ms
from kafka_on_spark.base.config import check_acks, leaves_auto_controller
from kafka_on_spark.base.counting import BYTES_IN, FAILED_APPENDS, REQUEST_MS
from kafka_on_spark.base.errors import (
    ClusterClosedError,
    KafkaOnSparkError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import BrokerId, Offset, PartitionKey, TopicId, check_whole_number
from kafka_on_spark.base.process import Clock
from kafka_on_spark.log.batch import Segment, WriterFence
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.observe.counts import Counts
from kafka_on_spark.produce.append_results import AppendResult, append_results
from kafka_on_spark.produce.append_watch import AppendWatch, WatchPorts
from kafka_on_spark.produce.appender import Appender
from kafka_on_spark.produce.multi_topic import split_differently
from kafka_on_spark.produce.preconditions import EarlierTries, split_before
from kafka_on_spark.produce.producer_runs import check_not_fenced
from kafka_on_spark.produce.producers import (
    ProducerRuns,
    check_producer,
    check_writer_not_fenced,
    producer_of,
)
from kafka_on_spark.produce.stage_plan import (
    AppendPlan,
    ProducerRun,
    StagedSegment,
    as_one_append,
    check_expected,
    collect_parts,
    is_unreached,
    plan_stage,
)
from kafka_on_spark.produce.stages import AnsweredPart, StagedPart
from kafka_on_spark.produce.timestamp_limits import retention_notice

log = logging.getLogger(__name__)

CreateReplicas = Callable[[Iterable[PartitionKey]], object]
Maintain = Callable[[MetadataImage, Iterable[PartitionKey]], None]

PRODUCE: Final = "Produce"
"""The request of an append, in Kafka's words: from staged records to the answer."""


IN_SYNC_PAUSE_MS_MIN: Final = 100.0
IN_SYNC_PAUSE_MS_MAX: Final = 1000.0

T = TypeVar("T")


def count_appends(
    recorder: Counts,
    image: MetadataImage,
    parts: Sequence[StagedPart],
    answers: Sequence[AnsweredPart],
    began_ms: float,
) -> None:
    """Count an append that has been answered, part by part."""
    recorder.observe(REQUEST_MS, recorder.now_ms() - began_ms, request=PRODUCE)
    for part, answer in zip(parts, answers, strict=True):
        topic = image.topics.get(part.key.topic_id)
        name = "" if topic is None else topic.name
        if answer.error is not None:
            recorder.count(FAILED_APPENDS, topic=name)
            continue
        recorder.count(FAILED_APPENDS, 0, topic=name)  # so that the first failure is a rise
        if not answer.is_duplicate:
            size_bytes = sum(segment.size_bytes for segment in part.batch.segments)
            recorder.count(BYTES_IN, size_bytes, topic=name)


class AppendService:
    """Plans appends, and leads what was staged for them to an answer."""

    def __init__(
        self,
        metadata: MetadataService,
        producers: ProducerRuns,
        appender: Appender,
        clock: Clock,
        *,
        create_replicas: CreateReplicas,
        maintain: Maintain,
        note_findings: Callable[[], None],
        watch_ports: WatchPorts,
        recorder: Counts,
    ) -> None:
        self._recorder = recorder
        self._metadata = metadata
        self._producers = producers
        self._appender = appender
        self._clock = clock
        self._earlier_tries = EarlierTries()
        self._warned_of: set[TopicId] = set()
        self._create_replicas = create_replicas
        self._maintain = maintain
        self._note_findings = note_findings
        self._watch_ports = watch_ports

    def plan(
        self,
        topic: str,
        *,
        acks: str | int = "all",
        producer_id: str | None = None,
        producer_epoch: int | None = None,
        sequence: int | None = None,
        transactional_id: str | None = None,
        expected_offsets: Mapping[int, int] | None = None,
        timeout_ms: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> AppendPlan:
        """Return the plan of an append.

        Raises:
            InvalidConfigError: `configs` has something other than auto.controller=false.
            UnknownTopicOrPartitionError, InvalidRequestError, NotEnoughReplicasError,
            ProducerFencedError: Nothing was written.
        """
        acks = check_acks(acks)
        may_decide = leaves_auto_controller(configs or {})
        image = self._metadata.catch_up()
        topic_image = image.topic(topic)
        producer_id = producer_of(producer_id, sequence, transactional_id)
        check_producer(producer_id, producer_epoch, sequence)
        expected = {} if expected_offsets is None else expected_offsets
        check_expected(topic_image, expected)
        if timeout_ms is not None:
            check_whole_number(timeout_ms, "timeout_ms")
        order = plan_stage(
            image,
            topic_image,
            acks=acks,
            has_producer=producer_id is not None,
            now_ms=self._clock.now_ms(),
        )
        writer = self._producers.take_over(transactional_id)
        producer = self._producers.begin(producer_id, producer_epoch, sequence)
        default_ms = image.settings(topic_image.topic_id).integer("delivery.timeout.ms")
        timeout_ms = default_ms if timeout_ms is None else timeout_ms
        plan = AppendPlan(
            topic_id=topic_image.topic_id,
            order=order,
            acks=acks,
            producer=producer,
            writer=writer,
            expected_offsets=dict(expected),
            timeout_ms=timeout_ms,
            may_decide=may_decide,
        )
        targets = order.targets[: self._split(plan)]
        return replace(plan, order=replace(order, targets=targets))

    def plan_topics(
        self,
        image: MetadataImage,
        partition_counts: Mapping[str, int],
        *,
        acks: str,
        producer: ProducerRun | None,
        writer: WriterFence | None,
        expected_offsets: Mapping[str, Mapping[int, int]],
        may_decide: bool = True,
    ) -> list[AppendPlan]:
        """Return the plans of what was staged on `image`, by topic name and number of partitions.

        0 partitions: nothing was staged for the topic; `expected_offsets` alone names it.

        Raises:
            UnknownTopicOrPartitionError, InvalidRecordError: A topic or a partition does not exist.
            CommitConflictError: A topic was not split as in the append's first try.
        """
        plans = []
        for name, count in partition_counts.items():
            topic = image.topic(name)
            expected = expected_offsets.get(name, {})
            check_expected(topic, expected)
            order = plan_stage(
                image,
                topic,
                acks=acks,
                has_producer=producer is not None,
                now_ms=0,
                needs_min_isr=False,  # that is looked at when it is appended
            )
            plan = AppendPlan(
                topic_id=topic.topic_id,
                order=replace(order, targets=order.targets[:count]),
                acks=acks,
                producer=producer,
                writer=writer,
                expected_offsets=dict(expected),
                timeout_ms=image.settings(topic.topic_id).integer("delivery.timeout.ms"),
                may_decide=may_decide,
            )
            if count and self._split(plan) != len(plan.order.targets):
                raise split_differently(name)
            plans.append(plan)
        return plans

    def plan_chosen(
        self,
        image: MetadataImage,
        topic_id: TopicId,
        *,
        acks: str,
        producer: ProducerRun,
        timeout_ms: int,
    ) -> AppendPlan:
        """Return the plan of records that all name their partitions, each an append of its own.

        A retry names the same ones, however many partitions the topic has by then: so nothing is
        asked about a first try's split.

        Raises:
            UnknownTopicOrPartitionError: The topic was deleted.
            NotEnoughReplicasError: Nothing was written.
        """
        topic = _topic(image, topic_id)
        now_ms = self._clock.now_ms()
        order = plan_stage(image, topic, acks=acks, has_producer=True, now_ms=now_ms)
        return AppendPlan(
            topic_id=topic_id,
            order=order,
            acks=acks,
            producer=producer,
            timeout_ms=timeout_ms,
            is_by_partition=True,
        )

    def _split(self, plan: AppendPlan) -> int:
        """Return into how many partitions a producer's append is split: as the headers of its first
        try say, since the topic may have been given partitions since: its records would stand
        twice. Without such a try, as it is planned.

        Raises:
            OutOfOrderSequenceError: The sequence is not a new one, and stands nowhere.
            And as `Appender.read_leaders`.
        """
        topic, run = self._metadata.image.topics.get(plan.topic_id), plan.producer
        count = len(plan.order.targets)
        if topic is None or run is None or not topic.is_expanded or (run.is_next and run.is_only):
            return count
        keys = [PartitionKey(topic.topic_id, number) for number in sorted(topic.partitions)]
        is_fenced = run.is_next and self._earlier_tries.has_looked_at(plan)
        if not is_fenced:
            self._create_replicas(keys)
        logs = self._appender.read_leaders(
            keys,
            AppendWatch(self._watch_ports, is_allowed=plan.may_decide),
            self._clock.monotonic_ms() + plan.timeout_ms,
            fence=None if is_fenced else run,
        )
        found = split_before([each for each in logs.values() if each is not None], run)
        return min(count, len(keys)) if found is None else found

    def append_staged(self, plan: AppendPlan, rows: Iterable[StagedSegment]) -> AppendResult:
        """Append what the tasks of `plan` have staged, `rows` in task order.

        Raises: as `append_staged_topics`.
        """
        return self.append_staged_topics([(plan, list(rows))])[0]

    def append_staged_topics(
        self,
        appends: Sequence[tuple[AppendPlan, Sequence[StagedSegment]]],
        *,
        reached_elsewhere: frozenset[BrokerId] = frozenset(),
    ) -> list[AppendResult]:
        """Append what was staged for several topics; one metadata commit moves high watermarks.

        The plans have acks, producer and writer in common. `reached_elsewhere`: brokers that tasks
        on other hosts have written to; they count as reached.

        Raises:
            The refusal of a task, or the first partition's error (see `append_results`).
            RootAccessDeniedError: This process may not write to the metadata: nothing is appended.
            ClusterClosedError: Another thread has closed the cluster; the outcome is unknown.
        """
        image = self._metadata.catch_up()
        self._metadata.check_writable()
        names = {plan.topic_id: _topic(image, plan.topic_id).name for plan, _ in appends}
        acks = appends[0][0].acks
        if acks == "0" and is_unreached([row for _, rows in appends for row in rows]):
            # Append nothing, not even what was staged: a part under the producer's sequence would
            # have another payload than a retry of the whole.
            return append_results(names, [], {}, is_waited_for=False)
        answers = self._answers(image, appends, reached_elsewhere)
        notices = self._retention_notices(image, appends)
        results = append_results(names, answers, notices, is_waited_for=acks != "0")
        for result in results:
            log.debug("appended %d records to %s", result.record_count, result.topic)
        return results

    def answer_staged_topics(
        self,
        appends: Sequence[tuple[AppendPlan, Sequence[StagedSegment]]],
        take: Callable[[AnsweredPart], None],
    ) -> None:
        """Append what was staged for several topics; `take` gets each partition's answer as soon
        as there is one. The plans may be of several appends of a producer.

        Raises:
            What refuses all of it before anything is appended: as `append_staged_topics`.
            ClusterClosedError: Another thread has closed the cluster; the outcome is unknown.
        """
        image = self._metadata.catch_up()
        self._metadata.check_writable()
        self._answers(image, appends, frozenset(), take)
        self._retention_notices(image, appends)

    def _retention_notices(
        self,
        image: MetadataImage,
        appends: Sequence[tuple[AppendPlan, Sequence[StagedSegment]]],
    ) -> dict[TopicId, str]:
        """Return by topic what retention will delete of what was appended; warn once a topic."""
        notices = {}
        for plan, rows in appends:
            settings = image.settings(plan.topic_id)
            if settings.text("message.timestamp.type") == "LogAppendTime":
                continue
            topic = image.topics[plan.topic_id].name
            batches: dict[int, list[Segment]] = {}
            for row in rows:
                if row.segment is not None:
                    batches.setdefault(row.partition, []).append(row.segment)
            notice = retention_notice(topic, settings, batches.values(), self._clock.now_ms())
            if notice is not None:
                notices[plan.topic_id] = notice
                if plan.topic_id not in self._warned_of:
                    self._warned_of.add(plan.topic_id)
                    log.warning(notice)
        return notices

    def _answers(
        self,
        image: MetadataImage,
        appends: Sequence[tuple[AppendPlan, Sequence[StagedSegment]]],
        reached_elsewhere: frozenset[BrokerId],
        take: Callable[[AnsweredPart], None] | None = None,
    ) -> list[AnsweredPart]:
        acks = appends[0][0].acks
        now_ms = self._clock.now_ms()
        parts = [part for plan, rows in appends for part in _parts(image, plan, rows, now_ms)]
        for plan, _ in appends:
            check_writer_not_fenced(image.producers, plan.writer)
            if plan.producer is not None:
                run = plan.producer
                check_not_fenced(image.producers, run.producer_id, run.producer_epoch)
        has_sequence = all(plan.producer is not None for plan, _ in appends)
        plans = [plan for plan, _ in appends]
        if not any(plan.is_by_partition for plan in plans):
            names = {plan.topic_id: image.topics[plan.topic_id].name for plan in plans}
            parts = as_one_append(names, parts)
        keys = [part.key for part in parts]
        began_ms = self._recorder.now_ms()
        self._create_replicas(keys)
        tried = self._earlier_tries.partitions(self._metadata.image, plans)
        try:
            answers = self._appender.append(
                parts,
                acks=acks,
                timeout_ms=min(plan.timeout_ms for plan, _ in appends),
                watch=AppendWatch(
                    self._watch_ports,
                    is_allowed=all(plan.may_decide for plan, _ in appends),
                    reached_elsewhere=reached_elsewhere,
                ),
                other_ends=_other_ends(plans, keys),
                tried=tried,
                take=take,
            )
        except ClusterClosedError as error:
            raise ClusterClosedError(
                "the cluster was closed by this process in the middle of an append, which may be"
                " committed: open it again with Cluster.open"
                + ("; a retry with the same sequence is safe" if has_sequence else "")
            ) from error
        self._earlier_tries.looked_at(plans, tried)
        count_appends(self._recorder, self._metadata.image, parts, answers, began_ms)
        self._note_findings()
        self._maintain(self._metadata.image, keys)
        return answers


def _topic(image: MetadataImage, topic_id: TopicId) -> TopicImage:
    topic = image.topics.get(topic_id)
    if topic is None:
        raise UnknownTopicOrPartitionError("the topic was deleted during the append")
    return topic


def _parts(
    image: MetadataImage, plan: AppendPlan, rows: Sequence[StagedSegment], now_ms: int
) -> list[StagedPart]:
    return collect_parts(
        image,
        _topic(image, plan.topic_id),
        plan.order,
        rows,
        producer=plan.producer,
        expected_offsets=plan.expected_offsets,
        now_ms=now_ms,
        writer=plan.writer,
    )


def _other_ends(
    plans: Iterable[AppendPlan], keys: Iterable[PartitionKey]
) -> dict[PartitionKey, Offset]:
    """Return where partitions that get no record must end."""
    with_records = set(keys)
    expected = {
        PartitionKey(plan.topic_id, number): Offset(offset)
        for plan in plans
        for number, offset in plan.expected_offsets.items()
    }
    return {key: offset for key, offset in expected.items() if key not in with_records}


def append_when_in_sync(
    append: Callable[[], T], catch_up: Callable[[], object], clock: Clock, *, timeout_ms: int
) -> T:
    """Return what `append` returns; call it again while too few replicas are in sync, for
    `timeout_ms` at most. `catch_up` is called before each further try.

    For a stream's batches: nobody is there to append again, and under its number a batch stands
    once, however many tries it takes. What was staged stays good.

    Raises: as both. In the end it is the first refusal, or the last one after a write: what
    may stand is never called not written.
    """
    deadline_ms = clock.monotonic_ms() + timeout_ms
    pauses = pauses_ms(IN_SYNC_PAUSE_MS_MIN, IN_SYNC_PAUSE_MS_MAX)
    failure: KafkaOnSparkError | None = None
    while True:
        pause_ms = next(pauses)
        try:
            return append()
        except (NotEnoughReplicasError, NotEnoughReplicasAfterAppendError) as error:
            if failure is None:
                log.warning("waits for replicas in sync (%d ms at most): %s", timeout_ms, error)
            if failure is None or isinstance(error, NotEnoughReplicasAfterAppendError):
                failure = error
            if clock.monotonic_ms() + pause_ms > deadline_ms:
                raise failure from None
        clock.sleep_ms(pause_ms)
        catch_up()
