"""The stages of one partition's part of an append: staged → placed → appended → answered.

Each is a frozen value. One function leads from each to the next: `place` (placing.py),
`append_placed` (placing.py too) and `acknowledge` (acknowledging.py). What stages is in
storage/staging, and runs in tasks. A part that gets no further is answered
with an error.
"""

from dataclasses import dataclass

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Batch, StagedBatch
from kafka_on_spark.log.producers import LastAppend
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.partition import PartitionRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """Tasks have written its files to roots of the ISR; no commit names them.

    Attributes:
        key: The partition.
        batch: Its files, in task order.
        holders: Replicas whose folders have all the files.
        expected_offset: Append only if the log ends there; None: wherever it ends.
    """

    key: PartitionKey
    batch: StagedBatch
    holders: tuple[ReplicaAddress, ...]
    expected_offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPart:
    """Its files lie in the folder of the leader, whose table is fenced; no commit names them.

    Attributes:
        part: As it was staged.
        batch: Its files, under names of the leader's epoch.
        partition: The partition, in the image that it was placed by.
        leader: Where the leader's replica is.
        log: The leader's log.
        state: What stood in that log when it was fenced.
    """

    part: StagedPart
    batch: StagedBatch
    partition: PartitionRegistration
    leader: ReplicaAddress
    log: ReplicaLog
    state: ReplicaState


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedPart:
    """A commit on the leader's table names its files and gives its records their offsets.

    Attributes:
        placed: As it was placed.
        batch: Where it stands; None if the log no longer has its header.
        state: The leader's log that it was seen in.
        is_duplicate: It stood there before this append's first try.
        last: Without a batch, where it stands, if that is known.
    """

    placed: PlacedPart
    batch: Batch | None
    state: ReplicaState
    is_duplicate: bool
    last: LastAppend | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredPart:
    """It is as safe as `acks` asks, or has an error: it was refused, or its outcome is unknown.

    Attributes:
        key: The partition.
        base_offset: Offset of its first record; None if it is a duplicate whose header the log no
            longer has, and not its producer's last append.
        record_count: Records appended.
        is_duplicate: They stood in the log before.
        append_time_ms: Their timestamp, if the time of their append counts (LogAppendTime) and
            retention has not removed them.
        error: Why it is not acknowledged. A RequestTimedOutError means unknown.
    """

    key: PartitionKey
    base_offset: Offset | None = None
    record_count: int = 0
    is_duplicate: bool = False
    append_time_ms: int | None = None
    error: KafkaOnSparkError | None = None
