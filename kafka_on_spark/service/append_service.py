"""An append from plan to acknowledgement, around tasks that run elsewhere.

Between `plan` and `commit` lie the tasks that stage segments: of a Spark job, of a data
source's writer, or this process's own.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from kafka_on_spark.config import check_acks
from kafka_on_spark.errors import ClusterClosedError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import Offset, PartitionKey, check_whole_number
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock
from kafka_on_spark.service.append_results import AppendPlan, AppendResult, append_result
from kafka_on_spark.service.appender import Appender
from kafka_on_spark.service.grown_topics import GrownTopics
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.producers import ProducerRuns, check_not_fenced, check_producer
from kafka_on_spark.service.replication_round import ReplicationRound
from kafka_on_spark.service.stage_plan import (
    StagedSegment,
    check_expected,
    collect_parts,
    is_unreached,
    plan_stage,
)

log = logging.getLogger(__name__)

Maintain = Callable[[MetadataImage, Iterable[PartitionKey]], None]


class AppendService:
    """Plans appends and commits what was staged for them."""

    def __init__(
        self,
        metadata: MetadataService,
        producers: ProducerRuns,
        appender: Appender,
        clock: Clock,
        *,
        replication_round: Callable[[], ReplicationRound],
        grown: GrownTopics,
        maintain: Maintain,
    ) -> None:
        self._metadata = metadata
        self._producers = producers
        self._appender = appender
        self._clock = clock
        self._replication_round = replication_round
        self._grown = grown
        self._maintain = maintain

    def plan(
        self,
        topic: str,
        *,
        acks: str | int = "all",
        producer_id: str | None = None,
        producer_epoch: int | None = None,
        sequence: int | None = None,
        expected_offsets: Mapping[int, int] | None = None,
        timeout_ms: int | None = None,
    ) -> AppendPlan:
        """Return the plan of an append.

        Raises:
            UnknownTopicOrPartitionError, InvalidRequestError, NotEnoughReplicasError,
            ProducerFencedError: Nothing was written.
        """
        checked = check_acks(acks)
        image = self._metadata.catch_up()
        topic_image = image.topic(topic)
        check_producer(producer_id, producer_epoch, sequence)
        expected = {} if expected_offsets is None else expected_offsets
        check_expected(topic_image, expected)
        if timeout_ms is not None:
            check_whole_number(timeout_ms, "timeout_ms")
        order = plan_stage(
            image,
            topic_image,
            acks=checked,
            has_producer=producer_id is not None,
            now_ms=self._clock.now_ms(),
        )
        producer = self._producers.begin(producer_id, producer_epoch, sequence)
        if producer is not None and topic_image.is_grown:
            count = self._grown.split(topic_image, producer)
            order = replace(order, targets=order.targets[:count])
        default_ms = image.settings(topic_image.topic_id).integer("delivery.timeout.ms")
        return AppendPlan(
            topic_id=topic_image.topic_id,
            order=order,
            acks=checked,
            producer=producer,
            expected_offsets=dict(expected),
            timeout_ms=default_ms if timeout_ms is None else timeout_ms,
        )

    def commit(self, plan: AppendPlan, rows: Iterable[StagedSegment]) -> AppendResult:
        """Commit what the tasks of `plan` have staged, `rows` in task order.

        Raises:
            The refusal of a task, or the first partition's error (see `append_result`).
            ClusterClosedError: Another thread has closed the cluster; the outcome is unknown.
        """
        image = self._metadata.catch_up()
        topic = image.topics.get(plan.topic_id)
        if topic is None:
            raise UnknownTopicOrPartitionError("the topic was deleted while it was appended to")
        staged = list(rows)
        if plan.acks == "0" and is_unreached(staged):
            # Nothing of it, not even what was staged: a part under a producer's sequence would
            # make a retry of the whole another payload.
            return append_result(topic.name, [], is_waited_for=False)
        parts = collect_parts(
            image,
            topic,
            plan.order,
            staged,
            producer=plan.producer,
            expected_offsets=plan.expected_offsets,
        )
        if plan.producer is not None:
            run = plan.producer
            check_not_fenced(image.producers, run.producer_id, run.producer_epoch)
        keys = [part.key for part in parts]
        self._replication_round().make_replicas(keys)
        try:
            outcomes = self._appender.commit(
                parts,
                acks=plan.acks,
                timeout_ms=plan.timeout_ms,
                other_ends={
                    PartitionKey(plan.topic_id, number): Offset(expected)
                    for number, expected in plan.expected_offsets.items()
                    if number not in {key.partition for key in keys}
                },
            )
        except ClusterClosedError as error:
            raise ClusterClosedError(
                "the cluster was closed by this process in the middle of an append, which may be"
                " committed: open it again with Cluster.open; a retry with the same sequence is"
                " safe"
            ) from error
        self._maintain(self._metadata.image, keys)
        result = append_result(topic.name, outcomes, is_waited_for=plan.acks != "0")
        log.debug("appended %d records to %s", result.record_count, topic.name)
        return result
