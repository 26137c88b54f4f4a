"""What an append answers, and what is kept between its staging and its commit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import Offset, TopicId
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
        expected_offsets: Log ends by partition, for a conditional append.
        timeout_ms: Source: delivery.timeout.ms.
    """

    topic_id: TopicId
    order: StageOrder
    acks: str
    producer: ProducerRun | None
    expected_offsets: Mapping[int, int] = field(default_factory=dict)
    timeout_ms: int


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


def append_result(
    topic: str, outcomes: Sequence[PartitionOutcome], *, is_waited_for: bool
) -> AppendResult:
    """Return the result of an append; with acks=0 (`is_waited_for` false) nothing is raised.

    Raises:
        The first partition's error, with the partitions that were acknowledged in its context.
    """
    failed = [each for each in outcomes if each.error is not None]
    if failed and is_waited_for:
        error = failed[0].error
        assert error is not None
        raise with_partitions(error, topic, outcomes)
    return AppendResult(
        topic=topic,
        partitions={
            each.key.partition: PartitionAppend(
                base_offset=each.base_offset,
                record_count=each.record_count,
                is_duplicate=each.is_duplicate,
            )
            for each in outcomes
        },
    )


def with_partitions(
    error: KafkaOnSparkError, topic: str, outcomes: Sequence[PartitionOutcome]
) -> KafkaOnSparkError:
    """Return `error` with which partitions of the append failed and which are acknowledged."""
    failed = [each.key.partition for each in outcomes if each.error is not None]
    kept = [each.key.partition for each in outcomes if each.error is None]
    context = {**error.context, "topic": topic, "failed": failed, "acknowledged": kept}
    return type(error)(error.message, **context)
