"""Inspects replicas for people: states, records, offsets by time.

Each call opens tables again and changes nothing. A replica that can't be read is an answer, not an
exception.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa

from kafka_on_spark.errors import CorruptLogError, KafkaOnSparkError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.offsets import FoundOffset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.describe.log_dirs import Found
from kafka_on_spark.service.read.offset_lookup import look_up_offset
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads
from kafka_on_spark.storage.calls.deadlines import within
from kafka_on_spark.storage.replicas.reader import read_timestamps
from kafka_on_spark.storage.replicas.replica_log import DeltaReplicaLog
from kafka_on_spark.storage.replicas.replica_store import DeltaReplicaStore
from kafka_on_spark.storage.replicas.segments import read_segment, segment_pieces
from kafka_on_spark.storage.roots.roots import StorageOptions

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
