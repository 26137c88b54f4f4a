"""Which offset a partition has for a time, asked of a replica that proves itself.

The replica's table is the time index (see `log/offsets`); here is whom to ask, and what of the
answer is committed. A reader asks, so nothing at or above the high watermark is an answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.ids import Offset
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.offsets import offset_for_time
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import ReplicaAddress, ReplicaStore
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.offset_resolution import TimeQuestion
from kafka_on_spark.service.reading import readers_choice
from kafka_on_spark.service.replicas import check_complete

ReadTimestamps = Callable[[ReplicaAddress, Segment], Sequence[int]]
"""Reads a segment's timestamps, µs since 1970 UTC, in offset order."""


def look_up_offset(
    now: MetadataImage,
    then: MetadataImage,
    question: TimeQuestion,
    *,
    replicas: ReplicaStore,
    read_timestamps: ReadTimestamps,
    client_rack: str | None = None,
) -> Offset | None:
    """Return the first record that was committed `then` and is not older, or None.

    The replicas of `now` are asked, at the first that answers; `then` may be the same image.

    Raises:
        KafkaStorageError: No replica can answer; says why, each.
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
        f" be read from any replica: {'; '.join(reasons) or 'none of it was ever made'}"
    )


def _ask(
    address: ReplicaAddress,
    partition: PartitionRegistration,
    timestamp_ms: int,
    replicas: ReplicaStore,
    read_timestamps: ReadTimestamps,
) -> Offset | None:
    state = replicas.open(address).load()
    check_complete(state, partition)
    # Replicas apply a log start after it was decided; readers never see below it.
    first = max(state.log_start_offset, partition.log_start_offset)
    found = offset_for_time(
        replace(state, log_start_offset=first),
        timestamp_ms * 1000,
        partial(read_timestamps, address),
    )
    return None if found is None else found.offset
