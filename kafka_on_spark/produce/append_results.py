"""What an append answers: where its records stand, or the first error with all failures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, TopicId
from kafka_on_spark.produce.stages import AnsweredPart

_RANGES_MAX: Final = 16
"""Partitions whose offsets a line of text has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAppend:
    """Where one partition's records stand.

    Attributes:
        base_offset: Offset of the first; None if they were appended before and the log no longer
            says where, or if acks=0 waited for nothing.
        record_count: Number of records.
        is_duplicate: An earlier try had appended them: this was a retry.
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
        notice: What will become of records by their age (`retention_notice`), if anything.
    """

    topic: str
    partitions: Mapping[int, PartitionAppend]
    notice: str | None = None

    @property
    def record_count(self) -> int:
        """Records in all partitions."""
        return sum(each.record_count for each in self.partitions.values())

    @property
    def is_duplicate(self) -> bool:
        """Whether all of it stood in the log before."""
        parts = self.partitions.values()
        return bool(parts) and all(each.is_duplicate for each in parts)

    def __str__(self) -> str:
        found = sum(each.record_count for each in self.partitions.values() if each.is_duplicate)
        ranges = [_range(*each) for each in sorted(self.partitions.items())]
        more = len(ranges) - _RANGES_MAX
        ranges[_RANGES_MAX:] = [f"and {more:,} partitions more"] if more > 0 else []
        return (
            f"{self.record_count - found:,} records appended to {self.topic}, {found:,} found as"
            f" appended before; offsets by partition: {', '.join(ranges) or 'none'}"
        )


def _range(number: int, part: PartitionAppend) -> str:
    if part.base_offset is None:
        return f"{number}: not known"
    return f"{number}: {part.base_offset}-{part.base_offset + part.record_count - 1}"


def append_results(
    topics: Mapping[TopicId, str],
    answers: Sequence[AnsweredPart],
    notices: Mapping[TopicId, str],
    *,
    is_waited_for: bool,
) -> list[AppendResult]:
    """Return the results of an append to `topics`, in their order.

    With acks=0 (`is_waited_for` false) nothing is raised.

    Raises:
        The first partition's error; its context lists failed and acknowledged partitions.
    """
    error = next((each.error for each in answers if each.error is not None), None)
    if error is not None and is_waited_for:
        raise _with_partitions(error, topics, answers)
    return [
        AppendResult(
            topic=name,
            partitions={
                each.key.partition: PartitionAppend(
                    base_offset=each.base_offset,
                    record_count=each.record_count,
                    is_duplicate=each.is_duplicate,
                )
                for each in answers
                if each.key.topic_id == topic_id
            },
            notice=notices.get(topic_id),
        )
        for topic_id, name in topics.items()
    ]


def _with_partitions(
    error: KafkaOnSparkError, topics: Mapping[TopicId, str], answers: Sequence[AnsweredPart]
) -> KafkaOnSparkError:
    """Return `error` with the partitions that failed, their errors, and those acknowledged."""

    def label(each: AnsweredPart) -> int | str:
        number = each.key.partition
        return number if len(topics) == 1 else f"{topics[each.key.topic_id]}-{number}"

    failed = {label(each): each.error for each in answers if each.error is not None}
    context = {
        **error.context,
        "topic": ",".join(topics.values()),
        "failed": list(failed),
        "acknowledged": [label(each) for each in answers if each.error is None],
    }
    if len({type(each) for each in failed.values()}) > 1:
        context["errors"] = {each: type(why).__name__ for each, why in failed.items()}
    return type(error)(error.message, **context)
