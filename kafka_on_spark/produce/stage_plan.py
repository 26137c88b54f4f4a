"""What the tasks that stage an append get and answer.

Their order is planned on an image, before anything is written: an append that can't have its acks
is refused here. The rows that come back are in task order, which becomes the order of offsets.

Where rows name their topics, these are not known before the tasks run. Tasks and driver then plan
each topic on the same image, that of one metadata offset: so the driver finds what a task has
staged for a partition.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    NO_ERROR,
    REFUSES_WRITES,
    CommitConflictError,
    InvalidRecordError,
    KafkaOnSparkError,
    KafkaStorageError,
    NotEnoughReplicasError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    ProducerEpoch,
    TopicId,
    check_mapping,
    check_whole_number,
)
from kafka_on_spark.log.batch import Segment, WriterFence
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import is_under_min_isr, too_few_in_sync

NULL_TOPIC = (
    "[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic."
    " Use the `topic` option for setting a default topic."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """Where one partition's segments go.

    Attributes:
        leader_epoch: For the files' names.
        replicas: The leader first, then the members of the ISR that get a copy at once; without a
            leader, the whole ISR.
        others: The rest of the ISR, written to if none of `replicas` can be reached, so that the
            next leader has the records; empty for acks=0, which waits for no error.
        has_leader: The partition has a leader.
    """

    leader_epoch: LeaderEpoch
    replicas: tuple[ReplicaAddress, ...]
    others: tuple[ReplicaAddress, ...] = ()
    has_leader: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOrder:
    """One append's order to all its tasks.

    Attributes:
        targets: By partition number.
        has_producer: Segments get a payload digest, and keyless records are split by their
            values, so that a retry is split in the same way.
        now_us: Timestamp of records without one.
        record_bytes_max: Source: max.message.bytes.
        segment_bytes_max: Uncompressed records a segment. Source: segment.bytes.
        is_expanded: The topic was given more partitions since its creation: a retry is split as
            its first try was.
    """

    targets: tuple[PartitionTarget, ...]
    has_producer: bool
    now_us: int
    record_bytes_max: int
    segment_bytes_max: int
    is_expanded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSegment:
    """One row back: a staged segment, or a refusal.

    Attributes:
        partition: -1 with a refusal of all records.
        segment: The file; None with a refusal.
        payload_digest: Of its records.
        has_keyless: One of them has no key.
        holders: Brokers whose roots have it.
        error_code: Why the task refused, or NO_ERROR.
        error: The same in words.
    """

    partition: int
    segment: Segment | None
    payload_digest: int = 0
    has_keyless: bool = False
    holders: tuple[BrokerId, ...] = ()
    error_code: int = NO_ERROR
    error: str | None = None

    @property
    def refusal(self) -> KafkaOnSparkError | None:
        """The error that the task refused with, or None."""
        if self.error_code == NO_ERROR:
            return None
        return ERROR_BY_CODE.get(self.error_code, KafkaStorageError)(self.error or "refused")


def encode_staged(staged: StagedSegment) -> str:
    """Return a row as JSON: executors send data, never code."""
    return json.dumps(asdict(staged))


def decode_staged(text: str) -> StagedSegment:
    """Return the row that `encode_staged` wrote."""
    return staged_of(json.loads(text))


def staged_of(fields: Mapping[str, Any]) -> StagedSegment:
    """Return the row whose fields came as JSON."""
    segment = fields["segment"]
    return StagedSegment(
        **{
            **fields,
            "segment": None if segment is None else Segment(**segment),
            "holders": tuple(fields["holders"]),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRun:
    """A producer, the epoch of its run, and the number of one append.

    Attributes:
        producer_epoch: The epoch; a run of this process has taken it, or the caller has chosen it.
        is_next: The run is this process's own, and the number is above all that it has begun.
        is_only: No other run had the id since it was new, or came back.
    """

    producer_id: str
    producer_epoch: ProducerEpoch
    sequence: int
    is_next: bool = False
    is_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlan:
    """An append that was planned: what its tasks need, and what is needed after them.

    Attributes:
        topic_id: The topic's id; a topic created later under the same name has another.
        acks: "all", "1" or "0".
        producer: The producer's run, or None.
        writer: The writer under a transactional id, or None.
        expected_offsets: Log ends by partition, for a conditional append.
        timeout_ms: Source: delivery.timeout.ms.
        may_decide: The append may control where nobody does: auto.controller is not off.
        is_by_partition: Each partition's records are an append of their own, whose tries bring the
            same; those of other partitions may expire in between. Else all of them are one append.
    """

    topic_id: TopicId
    topic: str
    order: StageOrder
    acks: str
    producer: ProducerRun | None
    writer: WriterFence | None = None
    expected_offsets: Mapping[int, int] = field(default_factory=dict)
    timeout_ms: int
    may_decide: bool = True
    is_by_partition: bool = False


def plan_stage(
    image: MetadataImage,
    topic: TopicImage,
    *,
    acks: str,
    has_producer: bool,
    now_ms: int,
    needs_min_isr: bool = True,
) -> StageOrder:
    """Return the order for one append's tasks.

    `needs_min_isr`: an append that can't have acks=all now is refused; else that is left to its
    commit.
    """
    settings = image.settings(topic.topic_id)
    if acks == "all" and needs_min_isr:
        under = [
            number
            for number, partition in sorted(topic.partitions.items())
            if is_under_min_isr(image, topic.topic_id, partition)
        ]
        if len(under) == len(topic.partitions):
            key = PartitionKey(topic.topic_id, under[0])
            raise NotEnoughReplicasError(too_few_in_sync(image, key, topic.partitions[under[0]]))
    return StageOrder(
        targets=tuple(
            _target(image, PartitionKey(topic.topic_id, number), partition, acks)
            for number, partition in sorted(topic.partitions.items())
        ),
        has_producer=has_producer,
        now_us=now_ms * 1000,
        record_bytes_max=settings.integer("max.message.bytes"),
        segment_bytes_max=settings.integer("segment.bytes"),
        is_expanded=topic.is_expanded,
    )


def _target(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, acks: str
) -> PartitionTarget:
    leader = partition.leader
    everyone = sorted(partition.isr, key=lambda each: (each != leader, each))
    first = everyone if acks == "all" or leader is None else [leader]
    addresses = {}
    for broker_id in everyone:
        # Where a replica will be created, or was lost and may be taken back, its files may come
        # before its table.
        directory = partition.directory_of(broker_id)
        if not partition.is_created(broker_id):
            directory = image.brokers[broker_id].directory_id
        addresses[broker_id] = address_of(image, key, partition, broker_id, directory_id=directory)
    return PartitionTarget(
        leader_epoch=partition.leader_epoch,
        replicas=tuple(addresses[each] for each in first),
        others=tuple(addresses[each] for each in everyone if acks != "0" and each not in first),
        has_leader=leader is not None,
    )


def is_unreached(rows: Iterable[StagedSegment]) -> bool:
    """Return whether tasks refused, all because no root could be reached.

    That is no fault of the records, so acks=0, which waits for no errors, reports nothing.
    """
    refused = [row.error_code for row in rows if row.error_code != NO_ERROR]
    kinds = (KafkaStorageError, RootAccessDeniedError, *REFUSES_WRITES)
    return bool(refused) and set(refused) <= {each.code for each in kinds}


def check_expected(topic: TopicImage, expected: Mapping[int, int]) -> None:
    """Check that a conditional append names partitions that exist."""
    check_mapping(expected, "expected_offsets", "partitions and offsets")
    for number, offset in expected.items():
        check_whole_number(number, "a partition of expected_offsets")
        check_whole_number(offset, f"the expected offset of partition {number}")
    unknown = sorted(set(expected) - topic.partitions.keys())
    if unknown:
        raise InvalidRecordError(
            f"expected_offsets names partition {unknown[0]}, but topic {topic.name!r} has"
            f" partitions 0 to {len(topic.partitions) - 1}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiTopicOrder:
    """One append's order to all its tasks; each task plans the topics that it finds in its rows.

    Attributes:
        image_offset: The metadata offset whose image all plan on.
        acks: "all", "1" or "0".
        now_ms: Timestamp of records without one.
    """

    cluster_id: str | None
    image_offset: Offset
    acks: str
    has_producer: bool
    now_ms: int
    needs_min_isr: bool = True

    def order_of(self, image: MetadataImage, name: str) -> StageOrder:
        """Return the order for one topic on `image`, which is that of `image_offset`."""
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
    """Return what all tasks, in task order, have staged for each topic."""
    merged: dict[str, StagedTopic] = {}
    for answer in answers:
        for row in answer.rows:
            if row.refusal is not None:
                raise row.refusal
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
