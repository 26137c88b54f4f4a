"""Finds the offset of a partition for a time, in a replica that proves to have all records.

The replica's table is the time index (see `log/offsets`). This module chooses the replica and keeps
the answer below the high watermark, since it is for a reader.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.ids import Offset
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.offsets import offset_for_time
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.replicas import ReplicaStore
from kafka_on_spark.query.offsets.positions import TimeQuestion
from kafka_on_spark.query.reads.read_order import readers_choice
from kafka_on_spark.service.replica.replica_operations import check_readable

ReadTimestamps = Callable[[ReplicaAddress, Segment], Iterable[tuple[int, int]]]
"""Reads the `offset_delta` and the timestamp, µs, of a segment's records, in offset order."""


def look_up_offset(
    now: MetadataImage,
    then: MetadataImage,
    question: TimeQuestion,
    *,
    replicas: ReplicaStore,
    read_timestamps: ReadTimestamps,
    client_rack: str | None = None,
) -> Offset | None:
    """Return the offset of the first record, committed in the image `then`, that is not older than
    the question's timestamp; None if there is none.

    The replicas of the image `now` are asked in order, until one answers. Both images may be one.

    Raises:
        KafkaStorageError: No replica can answer; it names each one's error.
    """
    partition, seen = now.partition(question.key), then.partition(question.key)
    assert seen is not None, "questions are about the image's partitions"
    if partition is None or seen.log_start_offset == seen.high_watermark:
        return None
    reasons = []
    for broker_id in readers_choice(now, partition, client_rack):
        address = address_of(now, question.key, partition, broker_id)
        try:
            found = _ask(address, partition, question.timestamp_ms, replicas, read_timestamps)
        except KafkaOnSparkError as error:
            reasons.append(f"broker {broker_id}: {error}")
            continue
        return found if found is not None and found < seen.high_watermark else None
    raise KafkaStorageError(
        f"the offset of {now.name_of(question.key)} for timestamp {question.timestamp_ms} can't"
        f" be read from any replica: {'; '.join(reasons) or 'none was ever created'}"
    )


def _ask(
    address: ReplicaAddress,
    partition: PartitionRegistration,
    timestamp_ms: int,
    replicas: ReplicaStore,
    read_timestamps: ReadTimestamps,
) -> Offset | None:
    state = replicas.open(address).load()
    check_readable(state, partition)
    # A replica applies a log start after it was decided; readers never see records below it.
    first = max(state.log_start_offset, partition.log_start_offset)
    found = offset_for_time(
        replace(state, log_start_offset=first),
        timestamp_ms * 1000,
        partial(read_timestamps, address),
    )
    return None if found is None else found.offset
