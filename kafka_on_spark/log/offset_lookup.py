"""Finds the offset of a partition for a time, in a replica that proves to have all records.

The Delta log is the time index: each segment has its smallest and largest timestamp there, so only
segments that may hold the answer are read, and only their timestamps. A reader's answer stays below
the high watermark. Source: Kafka's ListOffsets, UnifiedLog.fetchOffsetByTimestamp.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.read_order import readers_choice
from kafka_on_spark.log.reading import read_timestamps
from kafka_on_spark.log.replica_operations import check_readable
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.storage_options import StorageOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """An offset, and what is known of the record there.

    Attributes:
        timestamp_us: The record's, µs since 1970 UTC; None: the question was for no record.
        leader_epoch: Leadership that appended it; for a log end, the latest one.
    """

    offset: Offset
    timestamp_us: int | None
    leader_epoch: LeaderEpoch | None


ReadSegment = Callable[[Segment], Iterable[tuple[int, int]]]
"""Reads the `offset_delta` and the timestamp, µs, of a segment's records, in offset order."""


def offset_for_time(
    state: ReplicaState, timestamp_us: int, read_timestamps: ReadSegment
) -> FoundOffset | None:
    """Return the first record that is not older than `timestamp_us`, or None.

    First by offset: timestamps of producers need not rise.
    """
    for each in _segments(state):
        if each.segment.timestamp_max_us < timestamp_us:
            continue
        for offset, found_us in each.retained_records(state.log_start_offset, read_timestamps):
            if found_us >= timestamp_us:
                return each.found(offset, found_us)
    return None


def offset_of_latest_time(state: ReplicaState, read_timestamps: ReadSegment) -> FoundOffset | None:
    """Return the first of the records with the largest timestamp, or None for an empty log.

    Not the last record: timestamps of producers need not rise (KIP-734).
    """
    best: FoundOffset | None = None
    for each in _segments(state):
        if best is not None and each.segment.timestamp_max_us <= (best.timestamp_us or 0):
            continue
        for offset, found_us in each.retained_records(state.log_start_offset, read_timestamps):
            if best is None or found_us > (best.timestamp_us or 0):
                best = each.found(offset, found_us)
    return best


class _Range(NamedTuple):
    """A segment with the offsets that it covers."""

    leader_epoch: LeaderEpoch
    segment: Segment
    base_offset: Offset
    end_offset: Offset

    def found(self, offset: Offset, timestamp_us: int) -> FoundOffset:
        return FoundOffset(offset=offset, timestamp_us=timestamp_us, leader_epoch=self.leader_epoch)

    def retained_records(
        self, log_start_offset: Offset, read_timestamps: ReadSegment
    ) -> Iterable[tuple[Offset, int]]:
        """Yield offset and timestamp of the records from the log start on."""
        segment, base_offset = self.segment, self.base_offset
        is_dense = segment.record_count == self.end_offset - base_offset
        if is_dense and segment.timestamp_min_us == segment.timestamp_max_us:
            found: Iterable[tuple[int, int]] = enumerate(
                (segment.timestamp_min_us,) * segment.record_count
            )
        else:
            found = read_timestamps(segment) if segment.record_count else ()
        for offset_delta, timestamp_us in found:
            offset = Offset(base_offset + offset_delta)
            if offset >= log_start_offset:
                yield offset, timestamp_us


def _segments(state: ReplicaState) -> Iterable[_Range]:
    for batch in state.batches:
        for segment, base_offset, end_offset in batch.ranges():
            yield _Range(batch.leader_epoch, segment, base_offset, end_offset)


ReadTimestamps = Callable[[ReplicaAddress, Segment], Iterable[tuple[int, int]]]
"""The same, of a replica's segment."""


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
    read: ReadSegment,
) -> FoundOffset | None:
    if timestamp_us is not None:
        return offset_for_time(state, timestamp_us, read)
    committed = [each for each in state.batches if each.end_offset <= seen.high_watermark]
    return offset_of_latest_time(replace(state, batches=tuple(committed)), read)


LOOK_UP_THREADS: Final = 8


def look_up_offsets(
    now: MetadataImage,
    then: MetadataImage,
    asked: Iterable[tuple[PartitionKey, int]],
    options: StorageOptions,
    client_rack: str | None,
) -> list[Offset | None]:
    """Return, in order, what `look_up_offset` finds for partitions and times in ms, in threads of
    this process."""
    replicas = Worker(options).replicas

    def one(question: tuple[PartitionKey, int]) -> Offset | None:
        key, timestamp_ms = question
        found = look_up_offset(
            now,
            then,
            key,
            timestamp_ms * 1000,
            replicas=replicas,
            read_timestamps=partial(read_timestamps, options=options),
            client_rack=client_rack,
        )
        return None if found is None else found.offset

    with DaemonThreads(LOOK_UP_THREADS, "times") as threads:
        return list(threads.map(one, asked))
