"""What an append answers, and what is kept between its staging and its commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import Offset, TopicId
from kafka_on_spark.log.batch import WriterFence
from kafka_on_spark.service.append_parts import PartitionOutcome
from kafka_on_spark.service.stage_plan import ProducerRun, StageOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlan:
    """An append that was planned: what its tasks need, and what its commit needs after them.

    Attributes:
        topic_id: The topic as it was then; a namesake made since is another.
        order: For the tasks.
        acks: "all", "1" or "0".
        producer: Who appends, or None.
        writer: Under which transactional id, or None.
        expected_offsets: Log ends by partition, for a conditional append.
        timeout_ms: Source: delivery.timeout.ms.
        may_decide: The call has not switched auto.controller off.
    """

    topic_id: TopicId
    order: StageOrder
    acks: str
    producer: ProducerRun | None
    writer: WriterFence | None = None
    expected_offsets: Mapping[int, int] = field(default_factory=dict)
    timeout_ms: int
    may_decide: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAppend:
    """Where one partition's records stand.

    Attributes:
        base_offset: Offset of the first; None if they were appended before and retention has
            removed them since, or if acks=0 waited for nothing.
        record_count: How many.
        is_duplicate: They stood there before: this was a retry.
    """

    base_offset: Offset | None
    record_count: int
    is_duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """What an acknowledged append has done.

    Attributes:
        topic: The topic's name.
        partitions: By partition number; only those that got records.
    """

    topic: str
    partitions: Mapping[int, PartitionAppend]

    @property
    def record_count(self) -> int:
        """Records in all partitions."""
        return sum(each.record_count for each in self.partitions.values())

    @property
    def is_duplicate(self) -> bool:
        """Whether all of it stood in the log before."""
        parts = self.partitions.values()
        return bool(parts) and all(each.is_duplicate for each in parts)


def append_results(
    topics: Mapping[TopicId, str], outcomes: Sequence[PartitionOutcome], *, is_waited_for: bool
) -> list[AppendResult]:
    """Return the results of an append to `topics`, in their order.

    With acks=0 (`is_waited_for` false) nothing is raised.

    Raises:
        The first partition's error, with what became of each partition in its context.
    """
    error = next((each.error for each in outcomes if each.error is not None), None)
    if error is not None and is_waited_for:
        raise _with_partitions(error, topics, outcomes)
    return [
        AppendResult(
            topic=name,
            partitions={
                each.key.partition: PartitionAppend(
                    base_offset=each.base_offset,
                    record_count=each.record_count,
                    is_duplicate=each.is_duplicate,
                )
                for each in outcomes
                if each.key.topic_id == topic_id
            },
        )
        for topic_id, name in topics.items()
    ]


def _with_partitions(
    error: KafkaOnSparkError, topics: Mapping[TopicId, str], outcomes: Sequence[PartitionOutcome]
) -> KafkaOnSparkError:
    """Return `error` with which partitions failed, and of what, and which are acknowledged."""

    def label(each: PartitionOutcome) -> int | str:
        number = each.key.partition
        return number if len(topics) == 1 else f"{topics[each.key.topic_id]}-{number}"

    failed = {label(each): each.error for each in outcomes if each.error is not None}
    context = {
        **error.context,
        "topic": ",".join(topics.values()),
        "failed": list(failed),
        "acknowledged": [label(each) for each in outcomes if each.error is None],
    }
    if len({type(each) for each in failed.values()}) > 1:
        context["errors"] = {each: type(why).__name__ for each, why in failed.items()}
    return type(error)(error.message, **context)
