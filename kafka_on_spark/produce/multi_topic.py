"""An append whose rows name their topics: the order that its tasks get, and what they answer.

The topics are in the rows, so they are not known before the tasks run. Tasks and driver plan each
topic on the same image, that of one metadata offset: so the driver finds what a task has staged for
a partition.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    NO_ERROR,
    CommitConflictError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.produce.stage_plan import (
    StagedSegment,
    StageOrder,
    plan_stage,
    staged_of,
)

NULL_TOPIC = (
    "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic."
    " Use the `topic` option for setting a default topic."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiTopicOrder:
    """One append's order to all its tasks; each task plans the topics that it finds in its rows.

    Attributes:
        cluster_id: The cluster of the image.
        image_offset: The metadata offset whose image all plan on.
        acks: "all", "1" or "0".
        has_producer: As in StageOrder.
        now_ms: Timestamp of records without one.
        needs_min_isr: As in `plan_stage`.
    """

    cluster_id: str | None
    image_offset: Offset
    acks: str
    has_producer: bool
    now_ms: int
    needs_min_isr: bool = True

    def order_of(self, image: MetadataImage, name: str) -> StageOrder:
        """Return the order for one topic on `image`, which is that of `image_offset`.

        Raises:
            UnknownTopicOrPartitionError, NotEnoughReplicasError: It can't be appended to.
        """
        return plan_stage(
            image,
            image.topic(name),
            acks=self.acks,
            has_producer=self.has_producer,
            now_ms=self.now_ms,
            needs_min_isr=self.needs_min_isr,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTopic:
    """What one task has staged for one topic.

    Attributes:
        topic: Its name; empty with a refusal, which is the only row then.
        partition_count: Into how many partitions its records were split.
        rows: In the task's order.
    """

    topic: str
    partition_count: int
    rows: tuple[StagedSegment, ...]


def encode_topic(staged: StagedTopic) -> str:
    """Return one answer as JSON: executors send data, never code."""
    return json.dumps(asdict(staged))


def decode_topic(text: str) -> StagedTopic:
    """Return what `encode_topic` wrote."""
    fields = json.loads(text)
    return StagedTopic(**{**fields, "rows": tuple(staged_of(row) for row in fields["rows"])})


def by_topic(answers: Iterable[StagedTopic]) -> dict[str, StagedTopic]:
    """Return what all tasks, in task order, have staged for each topic.

    Raises:
        The refusal that a task answered with.
        CommitConflictError: Tasks have split a topic differently.
    """
    merged: dict[str, StagedTopic] = {}
    for answer in answers:
        for row in answer.rows:
            if row.error_code != NO_ERROR:
                kind = ERROR_BY_CODE.get(row.error_code, KafkaStorageError)
                raise kind(row.error or "refused")
        before = merged.get(answer.topic, replace(answer, rows=()))
        if before.partition_count != answer.partition_count:
            raise split_differently(answer.topic)
        merged[answer.topic] = replace(before, rows=(*before.rows, *answer.rows))
    return merged


def split_differently(topic: str) -> CommitConflictError:
    """Return the error for an append that was not split as in its first try, or not alike by all of
    its tasks."""
    return CommitConflictError(
        f"topic {topic!r} was given partitions, or lost some, and this append was not staged as its"
        " first try was, or not alike by all tasks; nothing of it is appended now: run it again"
    )


def conditions_only(
    expected: Mapping[str, Mapping[int, int]], topics: Iterable[str]
) -> dict[str, StagedTopic]:
    """Return empty answers for the topics that only a condition names."""
    return {
        name: StagedTopic(topic=name, partition_count=0, rows=())
        for name in expected
        if name not in set(topics)
    }
