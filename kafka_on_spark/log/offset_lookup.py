"""Finds the offset of a partition for a time, in a replica that proves to have all records.

The replica's table is the time index (see `log/offsets`). This module chooses the replica and keeps
the answer below the high watermark, since it is for a reader.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.offsets import FoundOffset, offset_for_time, offset_of_latest_time
from kafka_on_spark.log.read_order import readers_choice
from kafka_on_spark.log.replica_operations import check_readable
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration

ReadTimestamps = Callable[[ReplicaAddress, Segment], Iterable[tuple[int, int]]]
"""Reads the `offset_delta` and the timestamp, µs, of a segment's records, in offset order."""


def look_up_offset(
    now: MetadataImage,
    then: MetadataImage,
    key: PartitionKey,
    timestamp_us: int | None,
    *,
    replicas: ReplicaStore,
    read_timestamps: ReadTimestamps,
    client_rack: str | None = None,
) -> FoundOffset | None:
    """Return the first record of a partition, committed in the image `then`, that is not older than
    a time; without a time, the first of those with the largest timestamp. None: there is none.

    The replicas of the image `now` are asked in order, until one answers. Both images may be one.

    Raises:
        KafkaStorageError: No replica can answer; it names each one's error.
    """
    partition, seen = now.partition(key), then.partition(key)
    assert seen is not None, "questions are about the image's partitions"
    if partition is None or seen.log_start_offset == seen.high_watermark:
        return None
    reasons = []
    for broker_id in readers_choice(now, partition, client_rack):
        address = address_of(now, key, partition, broker_id)
        try:
            state = replicas.open(address).load()
            check_readable(state, partition)
            # A replica applies a log start after it was decided; readers never see records below.
            first = max(state.log_start_offset, partition.log_start_offset)
            state = replace(state, log_start_offset=first)
            found = _answer(state, timestamp_us, seen, partial(read_timestamps, address))
        except KafkaOnSparkError as error:
            reasons.append(f"broker {broker_id}: {error}")
            continue
        return found if found is not None and found.offset < seen.high_watermark else None
    asked = "its latest time" if timestamp_us is None else f"timestamp {timestamp_us // 1000}"
    raise KafkaStorageError(
        f"the offset of {now.name_of(key)} for {asked} can't be read from any replica:"
        f" {'; '.join(reasons) or 'none was ever created'}"
    )


def _answer(
    state: ReplicaState,
    timestamp_us: int | None,
    seen: PartitionRegistration,
    read: Callable[[Segment], Iterable[tuple[int, int]]],
) -> FoundOffset | None:
    if timestamp_us is not None:
        return offset_for_time(state, timestamp_us, read)
    committed = [each for each in state.batches if each.end_offset <= seen.high_watermark]
    return offset_of_latest_time(replace(state, batches=tuple(committed)), read)
