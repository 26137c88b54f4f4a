"""Inspects replicas for people: states, records, offsets by time.

Each call opens tables again and changes nothing. A replica that can't be read is an answer, not an
exception.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError, KafkaOnSparkError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.offset_lookup import look_up_offset
from kafka_on_spark.log.offsets import FoundOffset
from kafka_on_spark.log.reader import read_timestamps
from kafka_on_spark.log.replica_log import DeltaReplicaLog
from kafka_on_spark.log.replica_store import DeltaReplicaStore
from kafka_on_spark.log.segments import read_segment, segment_pieces
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.observe.sizes import Found
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.roots import StorageOptions

THREADS: Final = 8
"""Threads that open tables: they wait for disks and stores most of the time."""


def load_replica(address: ReplicaAddress, options: StorageOptions) -> Found:
    """Return a replica's newest state, or why it can't be read."""
    try:
        return DeltaReplicaLog(address, options).load()
    except KafkaOnSparkError as error:
        return error


def load_replicas(
    addresses: Sequence[ReplicaAddress], options: StorageOptions
) -> Iterator[tuple[ReplicaAddress, Found]]:
    """Yield what each replica holds, in order, as they are read."""
    with DaemonThreads(THREADS, "inspection") as threads:
        found = threads.map(partial(load_replica, options=options), addresses)
        yield from zip(addresses, found, strict=True)


def batch_flaw(address: ReplicaAddress, batch: LogPart, options: StorageOptions) -> str | None:
    """Return what is wrong with a batch's files, by size and digest, or None.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    for segment in batch.segments:
        pieces = segment_pieces(address, segment, options)
        try:
            within(address.root, partial(deque, pieces, maxlen=0))
        except CorruptLogError as error:
            return error.message
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionComparison:
    """The comparison of all replicas of one partition below its high watermark.

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
    """Return a comparison for each partition of `topic`.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
    found, options = image.topic(topic), StorageOptions(storage_options)
    keys = [PartitionKey(found.topic_id, number) for number in sorted(found.partitions)]
    return [compare_partition(image, key, options, is_deep=is_deep) for key in keys]


def compare_partition(
    image: MetadataImage, key: PartitionKey, options: StorageOptions, *, is_deep: bool = False
) -> PartitionComparison:
    """Return the comparison of all replicas of a partition of `image`, which is a new one: what
    retention and moves remove afterwards would be missing.

    Each replica's chain digest at the high watermark is compared with the registered one: that
    takes one read of each table, however many records there are. A deep comparison also reads every
    segment file, since a file's name only says what its bytes should be.
    """
    partition = image.partition(key)
    assert partition is not None, "it is one of this image"
    compared: list[Sequence[LogPart]] = []
    differences = []
    for broker_id in sorted(partition.replicas if partition.was_begun else ()):
        why: str | None = "not created, or lost"
        if partition.is_created(broker_id):
            address = address_of(image, key, partition, broker_id)
            state = load_replica(address, options)
            if isinstance(state, KafkaOnSparkError):
                why = str(state)
            else:
                start, mark = partition.log_start_offset, partition.high_watermark
                compared.append(list(state.batches_between(start, mark)))
                why = _difference(state, partition)
                why = why or (_flaw(address, compared[-1], options) if is_deep else None)
        if why is not None:
            differences.append(f"{image.name_of(key)} on broker {broker_id}: {why}")
    return PartitionComparison(
        partition=key.partition,
        replica_count=len(compared),
        batch_count=max(map(len, compared), default=0),
        read_bytes=sum(part.size_bytes for each in compared for part in each) if is_deep else 0,
        differences=tuple(differences),
    )


def _difference(state: ReplicaState, partition: PartitionRegistration) -> str | None:
    """Return how a replica differs from what is committed, or None."""
    mark = partition.high_watermark
    if state.log_end_offset < mark:
        return f"ends at {state.log_end_offset}, below the high watermark {mark}"
    if state.is_merged_over(mark) or state.chain_at(mark) == partition.high_watermark_chain:
        return None
    return f"its chain digest at the high watermark {mark} is not the registered one"


def _flaw(
    address: ReplicaAddress, batches: Iterable[LogPart], options: StorageOptions
) -> str | None:
    """Return what is wrong with the first damaged file, or why it can't be read; None: nothing."""
    try:
        return next(filter(None, (batch_flaw(address, each, options) for each in batches)), None)
    except KafkaOnSparkError as error:
        return str(error)


def batch_records(
    address: ReplicaAddress, batch: LogPart, options: StorageOptions
) -> Iterator[dict[str, Any]]:
    """Yield a batch's records: offset, timestamp_us, key, value, headers.

    Raises:
        CorruptLogError: A file is missing or damaged.
        KafkaStorageError: The root does not answer.
    """
    common_us = batch.common_timestamp_us
    for segment, base_offset, _ in batch.ranges():
        table = read_segment(address, segment, options)
        timestamps = table.column("timestamp").cast(pa.int64())
        table = table.set_column(1, "timestamp_us", timestamps)
        for record in table.to_pylist():
            yield {
                "offset": base_offset + record.pop("offset_delta"),
                **record,
                **({} if common_us is None else {"timestamp_us": common_us}),
            }


def find_offset(
    image: MetadataImage, key: PartitionKey, timestamp_us: int | None, options: StorageOptions
) -> FoundOffset | None:
    """Return the first committed record that is not older than `timestamp_us`, or None.

    Without a time: the first of the records with the largest timestamp.

    Raises:
        KafkaStorageError: No replica with all committed records can be read; it gives each reason.
    """
    replicas, read = DeltaReplicaStore(options), partial(read_timestamps, options=options)
    return look_up_offset(image, image, key, timestamp_us, replicas=replicas, read_timestamps=read)
