"""Compares the replicas of a topic below the high watermark.

Opens every replica's table, computes its chain and compares the digest at the high watermark with
the registered one. That takes one read of each table, however many records there are. A deep
comparison also reads every segment file, since a file's name only says what its bytes should be.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_on_spark.errors import KafkaOnSparkError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.merged_segment import LogPart
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
        batch_count: Batches below the high watermark, in the replica that has the most.
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
    batch_counts: list[int] = []
    read_bytes = 0
    differences: list[str] = []
    for broker_id in partition.replicas if partition.was_begun else ():
        name = f"{image.name_of(key)} on broker {broker_id}"
        if not partition.is_created(broker_id):
            differences.append(f"{name}: not created, or lost")
            continue
        address = address_of(image, key, partition, broker_id)
        try:
            state = DeltaReplicaLog(address, options).load()
            start, mark = partition.log_start_offset, partition.high_watermark
            batches = list(state.batches_between(start, mark))
            read_bytes += _read_files(address, batches, options) if is_deep else 0
        except KafkaOnSparkError as error:
            differences.append(f"{name}: {error}")
            continue
        batch_counts.append(len(batches))
        differences += (f"{name}: {each}" for each in _differences(state, partition))
    return PartitionComparison(
        partition=key.partition,
        replica_count=len(batch_counts),
        batch_count=max(batch_counts, default=0),
        read_bytes=read_bytes,
        differences=tuple(sorted(differences)),
    )


def _differences(state: ReplicaState, partition: PartitionRegistration) -> Iterator[str]:
    """Yield how a replica differs from what is committed."""
    mark = partition.high_watermark
    if state.log_end_offset < mark:
        yield f"ends at {state.log_end_offset}, below the high watermark {mark}"
    elif not (state.is_merged_over(mark) or state.chain_at(mark) == partition.high_watermark_chain):
        yield f"its chain digest at the high watermark {mark} is not the registered one"


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
