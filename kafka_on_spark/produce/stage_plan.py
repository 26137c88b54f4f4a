"""Plans an append: the order by which tasks stage it, and the staged parts that they answer with.

The order is planned on an image, before anything is written: an append that can't have its acks
is refused here. The rows that come back are in task order, which becomes the order of offsets.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from typing import Any

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    NO_ERROR,
    REFUSES_WRITES,
    InvalidRecordError,
    KafkaStorageError,
    MessageTooLargeError,
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
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.batch import (
    SEGMENTS_A_BATCH_MAX,
    ProducerStamp,
    Segment,
    StagedBatch,
    WriterFence,
)
from kafka_on_spark.metadata.high_watermark import is_under_min_isr, too_few_in_sync
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.produce.stages import StagedPart
from kafka_on_spark.produce.timestamp_limits import check_timestamps


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
        partition: Its partition; -1 with a refusal.
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
        producer_id: The producer.
        producer_epoch: The epoch; a run of this process has taken it, or the caller has chosen it.
        sequence: The append's number.
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
        order: For the tasks.
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

    Raises:
        NotEnoughReplicasError: acks=all, and no partition has its minimum of in-sync replicas.
    """
    settings = image.settings(topic.topic_id)
    if acks == "all" and needs_min_isr:
        _check_min_isr(image, topic)
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


def _check_min_isr(image: MetadataImage, topic: TopicImage) -> None:
    under = [
        number
        for number, partition in sorted(topic.partitions.items())
        if is_under_min_isr(image, topic.topic_id, partition)
    ]
    if len(under) == len(topic.partitions):
        key = PartitionKey(topic.topic_id, under[0])
        raise NotEnoughReplicasError(too_few_in_sync(image, key, topic.partitions[under[0]]))


def _target(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, acks: str
) -> PartitionTarget:
    leader = partition.leader
    everyone = sorted(partition.isr, key=lambda each: (each != leader, each))
    first = everyone if acks == "all" or leader is None else [leader]
    others = [] if acks == "0" else [each for each in everyone if each not in first]

    def addresses(broker_ids: Iterable[BrokerId]) -> tuple[ReplicaAddress, ...]:
        return tuple(_staging_address(image, key, partition, each) for each in broker_ids)

    return PartitionTarget(
        leader_epoch=partition.leader_epoch,
        replicas=addresses(first),
        others=addresses(others),
        has_leader=leader is not None,
    )


def _staging_address(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
) -> ReplicaAddress:
    """Return where a replica is, will be created, or was lost and may be taken back: its files
    may come before its table."""
    directory = partition.directory_of(broker_id)
    if not partition.is_created(broker_id):
        directory = image.brokers[broker_id].directory_id
    return address_of(image, key, partition, broker_id, directory_id=directory)


def collect_parts(
    image: MetadataImage,
    topic: TopicImage,
    order: StageOrder,
    rows: Iterable[StagedSegment],
    *,
    producer: ProducerRun | None,
    expected_offsets: Mapping[int, int],
    now_ms: int,
    writer: WriterFence | None = None,
) -> list[StagedPart]:
    """Return the staged parts that `rows`, in task order, make.

    Raises:
        The refusal that a task answered with.
        InvalidTimestampError: A record's timestamp is too far from `now_ms`.
        MessageTooLargeError: The tasks have staged more segments than one commit can name.
    """
    by_partition: dict[int, list[StagedSegment]] = {}
    for row in rows:
        if row.error_code != NO_ERROR:
            raise ERROR_BY_CODE.get(row.error_code, KafkaStorageError)(row.error or "refused")
        by_partition.setdefault(row.partition, []).append(row)
    _check_counts(topic, by_partition)
    settings = image.settings(topic.topic_id)
    is_append_time = settings.text("message.timestamp.type") == "LogAppendTime"
    if not is_append_time:
        staged = {
            number: [each.segment for each in rows if each.segment is not None]
            for number, rows in by_partition.items()
        }
        check_timestamps(topic.name, settings, staged, now_ms)
    parts = [
        _part(topic, order, number, rows, producer, expected_offsets, is_append_time)
        for number, rows in sorted(by_partition.items())
    ]
    return [replace(each, batch=replace(each.batch, writer=writer)) for each in parts]


def as_one_append(names: Mapping[TopicId, str], parts: Sequence[StagedPart]) -> list[StagedPart]:
    """Return an append's parts, each with the digest of the whole append in its header.

    So one partition alone tells a retry from another append with the same number. By the topics'
    `names`: one of them may have been created anew between two tries.
    """
    found = sorted(
        (names[part.key.topic_id], part.key.partition, part.batch.producer.payload_digest)
        for part in parts
        if part.batch.producer is not None
    )
    text = json.dumps(found, separators=(",", ":"))
    whole = int.from_bytes(blake2b(text.encode("ascii"), digest_size=8).digest(), signed=True)
    return [
        replace(part, batch=replace(part.batch, producer=replace(producer, payload_digest=whole)))
        if (producer := part.batch.producer) is not None
        else part
        for part in parts
    ]


def _check_counts(topic: TopicImage, by_partition: Mapping[int, Sequence[StagedSegment]]) -> None:
    """Check that each partition's part fits one commit, before the first of them is committed."""
    for number, rows in by_partition.items():
        if len(rows) > SEGMENTS_A_BATCH_MAX:
            raise MessageTooLargeError(
                f"an append of {len(rows)} segments to partition {number} of topic {topic.name!r}"
                f" is more than one commit can name, which is {SEGMENTS_A_BATCH_MAX}: append the"
                " records in several parts or, since each task makes a segment at least, by fewer"
                " tasks"
            )


def is_unreached(rows: Iterable[StagedSegment]) -> bool:
    """Return whether tasks refused, all because no root could be reached.

    That is no fault of the records, so acks=0, which waits for no errors, reports nothing.
    """
    refused = [row.error_code for row in rows if row.error_code != NO_ERROR]
    kinds = (KafkaStorageError, RootAccessDeniedError, *REFUSES_WRITES)
    return bool(refused) and set(refused) <= {each.code for each in kinds}


def check_expected(topic: TopicImage, expected: Mapping[int, int]) -> None:
    """Check that a conditional append names partitions that exist.

    Raises:
        InvalidRecordError: One does not.
        InvalidRequestError: They are not a mapping by partition, or one is not a number.
    """
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


def _part(
    topic: TopicImage,
    order: StageOrder,
    number: int,
    rows: list[StagedSegment],
    producer: ProducerRun | None,
    expected_offsets: Mapping[int, int],
    is_append_time: bool,
) -> StagedPart:
    target = order.targets[number]
    holders = set.intersection(*(set(row.holders) for row in rows))
    expected = expected_offsets.get(number)
    return StagedPart(
        key=PartitionKey(topic.topic_id, number),
        batch=StagedBatch(
            segments=tuple(row.segment for row in rows if row.segment is not None),
            partition_count=len(order.targets),
            producer=None if producer is None else _stamp(producer, rows),
            is_log_append_time=is_append_time,
            has_keyless=any(row.has_keyless for row in rows),
        ),
        holders=tuple(each for each in _members(target) if each.broker_id in holders),
        expected_offset=None if expected is None else Offset(expected),
    )


def _members(target: PartitionTarget) -> tuple[ReplicaAddress, ...]:
    return (*target.replicas, *target.others)


def _stamp(producer: ProducerRun, rows: Iterable[StagedSegment]) -> ProducerStamp:
    digest = (sum(row.payload_digest for row in rows) + 2**63) % 2**64 - 2**63
    return ProducerStamp(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        sequence=producer.sequence,
        payload_digest=digest,
    )
