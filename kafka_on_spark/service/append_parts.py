"""One partition's part of an append: staged, and what became of it; and who does it."""

from concurrent.futures import Executor
from dataclasses import dataclass

from kafka_on_spark.errors import KafkaOnSparkError, RequestTimedOutError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.log.batch import StagedBatch
from kafka_on_spark.ports import ReplicaAddress


@dataclass(frozen=True, slots=True)
class AppendThreads:
    """Two pools, so that none waits for itself: partitions wait for fetches, fetches for nobody."""

    partitions: Executor
    fetches: Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPartition:
    """One partition's part of an append, after the executors are done.

    Attributes:
        key: The partition.
        staged: Its files, in task order.
        holders: Replicas whose folders have all the files.
        expected_offset: Append only if the log ends there; None: wherever it ends.
    """

    key: PartitionKey
    staged: StagedBatch
    holders: tuple[ReplicaAddress, ...]
    expected_offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOutcome:
    """What became of one partition's part of an append.

    Attributes:
        key: The partition.
        base_offset: Offset of its first record; None if it failed, or if it is a duplicate
            that retention has removed.
        record_count: Records appended.
        is_duplicate: They stood in the log before.
        error: Why it is not acknowledged, or None. A RequestTimedOutError means unknown.
    """

    key: PartitionKey
    base_offset: Offset | None
    record_count: int
    is_duplicate: bool = False
    error: KafkaOnSparkError | None = None


def not_acknowledged(part: StagedPartition, why: str, *, is_late: bool) -> RequestTimedOutError:
    """Return the error of a partition whose outcome is unknown; late: its time was up."""
    has_sequence = part.staged.producer is not None and part.staged.producer.sequence is not None
    advice = (
        "a retry with the same sequence is safe"
        if has_sequence
        else "a retry may append it twice (with a producer_id and a sequence it would not)"
    )
    return RequestTimedOutError(
        f"partition {part.key.partition}: not acknowledged{' in time' if is_late else ''} ({why});"
        f" whether it will be committed is unknown, {advice}"
    )
