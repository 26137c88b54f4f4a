"""Compares the replicas of a topic below the high watermark.

Opens every replica's table, computes its chain and compares the digest at the high watermark with
the registered one. That takes one read of each table, however many records there are. A deep
comparison also reads every segment file, since a file's name only says what its bytes should be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from kafka_on_spark.errors import KafkaOnSparkError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.merged_segment import LogPart, MergedSegment
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.storage.calls.deadlines import within
from kafka_on_spark.storage.replicas.replica_log import DeltaReplicaLog
from kafka_on_spark.storage.replicas.segments import segment_pieces
from kafka_on_spark.storage.roots.roots import StorageOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionComparison:
    """The comparison of all replicas of one partition.

    Attributes:
        partition: Its number.
        replica_count: Replicas that were read.
        batch_count: Batches below the high watermark, in the first replica.
        read_bytes: Bytes of segments read, in all replicas.
        differences: Replicas that lack committed records, have other records, or can't be read;
            empty if all replicas are equal.
    """

    partition: int
    replica_count: int
    batch_count: int
    read_bytes: int
    differences: tuple[str, ...]


def compare_replicas(
    image: MetadataImage,
    topic: str,
    storage_options: Mapping[str, Any] | None = None,
    *,
    is_deep: bool = False,
) -> list[PartitionComparison]:
    """Return a comparison for each partition of `topic`; a deep one also compares files' bytes.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
    options = StorageOptions(storage_options)
    topic_image = image.topic(topic)
    return [
        compare_partition(
            image, PartitionKey(topic_image.topic_id, number), options, is_deep=is_deep
        )
        for number in sorted(topic_image.partitions)
    ]


def compare_partition(
    image: MetadataImage, key: PartitionKey, options: StorageOptions, *, is_deep: bool = False
) -> PartitionComparison:
    """Return the comparison of all replicas of a partition of `image`, which is a new one: what
    retention and moves remove afterwards would be missing.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition any more.
    """
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"partition {key.partition} is gone: it was deleted")
    logs: dict[BrokerId, ReplicaState] = {}
    read_bytes = 0
    differences: dict[BrokerId, str] = {}
    for broker_id in partition.replicas if partition.was_begun else ():
        if not partition.is_created(broker_id):
            differences[broker_id] = "not created, or lost"
            continue
        address = address_of(image, key, partition, broker_id)
        try:
            state = DeltaReplicaLog(address, options).load()
            if is_deep:
                read_bytes += _read_files(address, committed_batches(state, partition), options)
        except KafkaOnSparkError as error:
            differences[broker_id] = str(error)
            continue
        logs[broker_id] = state
    right = next((each for each in logs.values() if _is_committed(each, partition)), None)
    for broker_id, state in logs.items():
        if not _is_committed(state, partition):
            differences[broker_id] = _difference(state, right, partition)
    first = next(iter(logs.values()), None)
    return PartitionComparison(
        partition=key.partition,
        replica_count=len(logs),
        batch_count=0 if first is None else len(committed_batches(right or first, partition)),
        read_bytes=read_bytes,
        differences=tuple(
            f"{image.name_of(key)} on broker {broker_id}: {each}"
            for broker_id, each in sorted(differences.items())
        ),
    )


def _is_committed(state: ReplicaState, partition: PartitionRegistration) -> bool:
    mark = partition.high_watermark
    return state.is_merged_over(mark) or state.chain_at(mark) == partition.high_watermark_chain


def _difference(
    state: ReplicaState, right: ReplicaState | None, partition: PartitionRegistration
) -> str:
    """Return in words how a log differs from the committed one, which `right` has."""
    mark = partition.high_watermark
    if state.log_end_offset < mark:
        return f"ends at {state.log_end_offset}, below the high watermark {mark}"
    said = f"its chain digest at the high watermark {mark} is not the registered one"
    if right is None:
        return said
    where = differs(committed_batches(right, partition), committed_batches(state, partition))
    return said if where is None else f"{said}: {where}"


def committed_batches(state: ReplicaState, partition: PartitionRegistration) -> list[LogPart]:
    """Return the batches of a replica that hold committed records."""
    return list(state.batches_between(partition.log_start_offset, partition.high_watermark))


def differs(first: Sequence[LogPart], batches: Sequence[LogPart]) -> str | None:
    """Return in words where `batches` begin to differ from `first`; None if they are equal.

    Header, order and files must agree: the digest of a file's bytes is in its name. Replicas merge
    by themselves: where one of them has, the chain digests at the borders that both have tell.
    """
    if any(isinstance(each, MergedSegment) for each in (*first, *batches)):
        return _differs_at_a_border(first, batches)
    for expected, found in zip_longest(first, batches):
        if expected is None or found is None:
            present = expected or found
            where = "lacks" if found is None else "has more:"
            return f"{where} the batch at offset {present.base_offset}"
        if _fingerprint(expected) != _fingerprint(found):
            return f"another batch at offset {expected.base_offset}"
    return None


def _differs_at_a_border(first: Sequence[LogPart], batches: Sequence[LogPart]) -> str | None:
    found = {each.end_offset: each for each in batches}
    for expected in first:
        other = found.get(expected.end_offset)
        if other is None:
            continue
        is_same_span = other.base_offset == expected.base_offset
        both = (expected, other)
        contents = {each.content_digest for each in both if isinstance(each, MergedSegment)}
        is_other_content = is_same_span and len(contents) == 2
        if other.chain_digest != expected.chain_digest or is_other_content:
            return f"another batch below offset {expected.end_offset}"
    ends = [max((each.end_offset for each in log), default=0) for log in (first, batches)]
    if ends[0] == ends[1]:
        return None
    return f"{'lacks' if ends[1] < ends[0] else 'has more:'} the batch at offset {min(ends)}"


def _fingerprint(batch: LogPart) -> tuple[object, ...]:
    files = [(each.uuid, each.digest, each.record_count) for each in batch.segments]
    return (batch.base_offset, batch.record_count, batch.leader_epoch, batch.producer, files)


def _read_files(
    address: ReplicaAddress, batches: Sequence[LogPart], options: StorageOptions
) -> int:
    """Read every segment and check it against its name; return the bytes read.

    Raises:
        CorruptLogError: A file is missing or not what its name says.
    """

    def read() -> int:
        segments = (segment for batch in batches for segment in batch.segments)
        return sum(sum(map(len, segment_pieces(address, each, options))) for each in segments)

    return within(address.root, read)
