"""Replicas read for people: what their logs are made of, their sizes and records, and whether they
are equal.

Each call opens tables again and changes nothing. A replica that can't be read is an answer, not an
exception.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError, KafkaOnSparkError
from kafka_on_spark.base.ids import LOST, BrokerId, Offset, PartitionKey, TopicPartition
from kafka_on_spark.controller.cleanup_policy import leader_dirt
from kafka_on_spark.controller.reassignment import list_reassignments
from kafka_on_spark.log.batch import LogPart, MergedSegment
from kafka_on_spark.log.file_deleter import unnamed_in
from kafka_on_spark.log.read_order import plan_read
from kafka_on_spark.log.reading import (
    LOOK_UP_THREADS,
    FoundOffset,
    look_up_offset,
    pass_deleted,
    read_rows,
    read_timestamps,
)
from kafka_on_spark.log.replica_upkeep import plan_upkeep
from kafka_on_spark.log.replicas import ReplicaLog, ReplicaStore
from kafka_on_spark.log.segments import read_segment, segment_pieces
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of
from kafka_on_spark.log.upkeep_work import UpkeepOrder
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import Compaction, PartitionRegistration
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.deadlines import DaemonThreads, within
from kafka_on_spark.store.roots import StorageOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPart:
    """How far a replica is compacted, in the words of Kafka's log cleaner.

    Attributes:
        cleaner_offset: Where the last round ended that the replica has finished: Kafka's checkpoint
            of the cleaner.
        target_offset: How far it is on the way to.
        tombstones_below: Below it tombstones may be gone.
        first_dirty_offset: Where what no decision compacts begins.
        first_uncleanable_offset: Where what may be compacted now ends.
        clean_bytes: Bytes before the dirty range.
        dirty_bytes: Bytes of the dirty range, between these two offsets.
        cleanable_ratio: Dirty bytes by all bytes below `first_uncleanable_offset`; compared with
            min.cleanable.dirty.ratio.
    """

    cleaner_offset: Offset
    target_offset: Offset
    tombstones_below: Offset
    first_dirty_offset: Offset
    first_uncleanable_offset: Offset
    clean_bytes: int
    dirty_bytes: int
    cleanable_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDescription:
    """One replica's log, by its table.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        broker_id: The broker that has the replica.
        is_leader: It leads.
        is_in_sync: It is in the ISR.
        log_start_offset: Of its log: of what was decided it may have applied a part.
        log_end_offset: Of its log.
        plain_segments: Files of one append each.
        plain_bytes: Bytes of these.
        merged_segments: Files of many appends, merged or compacted.
        merged_bytes: Bytes of these.
        waiting_bytes: Bytes of files in its folder that its log does not name: they wait for
            deletion, or an append under way has staged them.
        record_count: Records in all of them.
        earliest_append_ms: When the oldest batch was appended, ms since 1970 UTC (of a merged
            segment, its newest batch); None: the log is empty.
        compacted: How far it is compacted; None: its topic is not, and never was.
        is_made: The replica was made: nothing may have been appended yet.
        error: Why the log could not be read; None: it was, or was not made.
    """

    topic: str
    partition: int
    broker_id: BrokerId
    is_leader: bool = False
    is_in_sync: bool = False
    log_start_offset: Offset = Offset(0)
    log_end_offset: Offset = Offset(0)
    plain_segments: int = 0
    plain_bytes: int = 0
    merged_segments: int = 0
    merged_bytes: int = 0
    waiting_bytes: int = 0
    record_count: int = 0
    earliest_append_ms: int | None = None
    compacted: CompactedPart | None = None
    is_made: bool = True
    error: str | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments in its log."""
        return self.plain_bytes + self.merged_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLogs:
    """One partition: what is decided of its logs, and each replica's log. `Cluster.history` has
    when and why it was decided.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        log_start_offset: The first offset that is kept.
        high_watermark: Where what is committed ends.
        compaction: How far its logs are to be compacted.
        replicas: The logs of its replicas, by broker.
    """

    topic: str
    partition: int
    log_start_offset: Offset
    high_watermark: Offset
    compaction: Compaction
    replicas: tuple[LogDescription, ...]


LOCAL_LOGS_MAX: Final = 8
"""So few logs are read in this process faster than a Spark job begins."""


def describe_logs(
    node: Node, image: MetadataImage, keys: Iterable[PartitionKey]
) -> list[LogDescription]:
    """Return the log of each replica of partitions, by partition and broker; one that can't be
    looked at has an error in place of figures."""
    keys = list(keys)
    orders = plan_upkeep(image, keys, is_dry_run=True)
    found = node.tasks.run(description_task, orders, few=LOCAL_LOGS_MAX)
    seen = {(each.key, each.address.broker_id) for each in orders}
    missing = [
        _missing(image, key, partition, broker_id)
        for key in keys
        if (partition := image.partition(key)) is not None
        for broker_id in partition.replicas
        if (key, broker_id) not in seen
    ]
    return sorted((*found, *missing), key=lambda each: (each.topic, each.partition, each.broker_id))


def by_partition(
    image: MetadataImage, keys: Iterable[PartitionKey], logs: Iterable[LogDescription]
) -> list[PartitionLogs]:
    """Return partitions with their replicas' `logs`, by name."""
    of_name: dict[tuple[str, int], list[LogDescription]] = {}
    for log in logs:
        of_name.setdefault((log.topic, log.partition), []).append(log)
    return [
        PartitionLogs(
            topic=name.topic,
            partition=name.partition,
            log_start_offset=partition.log_start_offset,
            high_watermark=partition.high_watermark,
            compaction=partition.compaction,
            replicas=tuple(of_name.get(name, ())),
        )
        for name, key in sorted((image.name_of(key), key) for key in keys)
        if (partition := image.partition(key)) is not None
    ]


def _missing(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
) -> LogDescription:
    directory_id, error = partition.directory_of(broker_id), None
    if directory_id == LOST:
        error = "the replica is lost, and was not made again yet"
    elif directory_id is not None and broker_id in image.brokers:
        refused = image.brokers[broker_id].refused
        why = "does not answer" if refused is None else f"is {refused}"
        error = f"broker {broker_id} is fenced: its root {why}"
    elif directory_id is not None:
        error = f"broker {broker_id} is not registered"
    is_made = directory_id is not None
    return _unread(image.name_of(key), partition, broker_id, error, is_made=is_made)


def _unread(
    name: TopicPartition,
    partition: PartitionRegistration,
    broker_id: BrokerId,
    error: str | None,
    *,
    is_made: bool = True,
) -> LogDescription:
    return LogDescription(
        topic=name.topic,
        partition=name.partition,
        broker_id=broker_id,
        is_leader=broker_id == partition.leader,
        is_in_sync=broker_id in partition.isr,
        is_made=is_made,
        error=error,
    )


def description_task(order: UpkeepOrder, worker: Worker) -> LogDescription:
    """Return what one replica's log is like. A task."""
    address, partition = order.address, order.partition
    name = TopicPartition(address.topic, order.key.partition)
    try:
        listed = within(address.root, lambda: worker.folders.sizes(address))
        replica = worker.replicas.open(address)
        state = within(address.root, replica.load)
    except KafkaOnSparkError as error:
        return _unread(name, partition, address.broker_id, error.message)
    merged = [each for each in state.batches if isinstance(each, MergedSegment)]
    plain = [each for each in state.batches if not isinstance(each, MergedSegment)]
    return replace(
        _unread(name, partition, address.broker_id, None),
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        plain_segments=sum(len(each.segments) for each in plain),
        plain_bytes=sum(each.size_bytes for each in plain),
        merged_segments=len(merged),
        merged_bytes=sum(each.size_bytes for each in merged),
        waiting_bytes=sum(listed[name] for name in unnamed_in(listed, replica, state)),
        record_count=sum(each.record_count for each in state.batches),
        earliest_append_ms=state.batches[0].appended_at_ms if state.batches else None,
        compacted=_compacted_part(order, state, worker.clock.now_ms()),
    )


def _compacted_part(order: UpkeepOrder, state: ReplicaState, now_ms: int) -> CompactedPart | None:
    settings, progress = order.settings, state.compaction
    if "compact" not in settings.policies and not progress.compacted_below:
        return None
    dirt = leader_dirt(state, order.partition, settings, now_ms=now_ms)
    return CompactedPart(
        cleaner_offset=progress.finished_below,
        target_offset=progress.compacted_below,
        tombstones_below=progress.tombstones_below,
        first_dirty_offset=dirt.first_dirty,
        first_uncleanable_offset=dirt.cleanable_below,
        clean_bytes=dirt.clean_bytes,
        dirty_bytes=dirt.dirty_bytes,
        cleanable_ratio=dirt.ratio,
    )


def size_task(address: ReplicaAddress, worker: Worker) -> int | None:
    """Return the bytes of a replica's segments; None if it can't be read. A task."""
    try:
        state = worker.replicas.open(address).load()
    except KafkaOnSparkError:
        return None
    return sum(batch.size_bytes for batch in state.batches)


def partition_sizes(
    node: Node, image: MetadataImage, keys: Iterable[PartitionKey]
) -> dict[PartitionKey, int | None]:
    """Return the bytes of one replica of each partition, none of one whose leader's replica was
    never created; None where no leader can tell."""
    leaders = {key: _leader_of(image, key) for key in keys}
    sizes = _sizes(node, image, leaders.items())
    return {
        key: None if leader is None else sizes.get((key, leader), 0)
        for key, leader in leaders.items()
    }


def _leader_of(image: MetadataImage, key: PartitionKey) -> BrokerId | None:
    return image.topics[key.topic_id].partitions[key.partition].leader


def _sizes(
    node: Node, image: MetadataImage, replicas: Iterable[tuple[PartitionKey, BrokerId | None]]
) -> dict[tuple[PartitionKey, BrokerId | None], int | None]:
    orders = [
        address_of(image, key, partition, broker_id)
        for key, broker_id in replicas
        for partition in [image.topics[key.topic_id].partitions[key.partition]]
        if broker_id is not None and partition.is_created(broker_id)
    ]
    found = node.tasks.run(size_task, orders)
    return {(each.key, each.broker_id): size for each, size in zip(orders, found, strict=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProgress:
    """The progress of one reassignment.

    Attributes:
        name: The partition.
        waits_for: Replicas of the target that are not in sync yet.
        copied_bytes: Bytes of the leader's log that the adding replicas have.
        total_bytes: Bytes that they must have; the number grows with each append.
    """

    name: TopicPartition
    waits_for: tuple[BrokerId, ...]
    copied_bytes: int
    total_bytes: int


def move_progress(node: Node) -> list[MoveProgress]:
    """Return the progress of the reassignments under way.

    A replica that can't be read counts as empty; a leader that can't be read counts as no larger
    than the adding replicas.
    """
    image = node.metadata.catch_up()
    moves = list_reassignments(image)
    leaders = [(move.key, _leader_of(image, move.key)) for move in moves]
    adding = [(move.key, each) for move in moves for each in move.adding]
    sizes = _sizes(node, image, [*leaders, *adding])
    progress = []
    for move, leader in zip(moves, leaders, strict=True):
        held = [sizes.get((move.key, each)) or 0 for each in move.adding]
        total = max([sizes.get(leader) or 0, *held])
        progress.append(
            MoveProgress(
                name=move.name,
                waits_for=move.waits_for,
                copied_bytes=sum(held),
                total_bytes=total * len(held),
            )
        )
    return progress


def batch_flaw(address: ReplicaAddress, batch: LogPart, options: StorageOptions) -> str | None:
    """Return what is wrong with a batch's files, by size and digest, or None; raise
    KafkaStorageError if the root does not answer."""
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
    """Return a comparison for each partition of `topic`; the image is a new one: what retention and
    moves remove afterwards would be missing.

    Each replica's chain digest at the high watermark is compared with the registered one: that
    takes one read of each table, however many records there are. A deep comparison also reads every
    segment file, since a file's name only says what its bytes should be.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
    found, options = image.topic(topic), StorageOptions(storage_options)
    keys = [PartitionKey(found.topic_id, number) for number in sorted(found.partitions)]
    return [_compare_partition(image, key, options, is_deep=is_deep) for key in keys]


def _compare_partition(
    image: MetadataImage, key: PartitionKey, options: StorageOptions, *, is_deep: bool
) -> PartitionComparison:
    partition = image.topics[key.topic_id].partitions[key.partition]
    compared: list[Sequence[LogPart]] = []
    differences = []
    for broker_id in sorted(partition.replicas if partition.was_begun else ()):
        why: str | None = "not created, or lost"
        if partition.is_created(broker_id):
            address = address_of(image, key, partition, broker_id)
            try:
                state = ReplicaLog(address, options).load()
                start, mark = partition.log_start_offset, partition.high_watermark
                compared.append(list(state.batches_between(start, mark)))
                why = _difference(state, partition)
                if why is None and is_deep:
                    flaws = (batch_flaw(address, each, options) for each in compared[-1])
                    why = next(filter(None, flaws), None)
            except KafkaOnSparkError as error:
                why = str(error)
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
    mark = partition.high_watermark
    if state.log_end_offset < mark:
        return f"ends at {state.log_end_offset}, below the high watermark {mark}"
    if (
        state.merged_over(mark) is not None
        or state.chain_at(mark) == partition.high_watermark_chain
    ):
        return None
    return f"its chain digest at the high watermark {mark} is not the registered one"


def batch_records(
    address: ReplicaAddress, batch: LogPart, options: StorageOptions
) -> Iterator[dict[str, Any]]:
    """Yield a batch's records: offset, timestamp_us, key, value, headers. CorruptLogError: a file
    is missing or damaged; KafkaStorageError: the root does not answer."""
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
    """Return the first committed record that is not older than `timestamp_us`, or None; without a
    time, the first of those with the largest timestamp. KafkaStorageError has each reason why no
    replica with all committed records can be read."""
    replicas, read = ReplicaStore(options), partial(read_timestamps, options=options)
    return look_up_offset(image, image, key, timestamp_us, replicas=replicas, read_timestamps=read)


def first_timestamps(
    image: MetadataImage, places: Iterable[tuple[PartitionKey, int]], options: StorageOptions
) -> list[int | KafkaOnSparkError | None]:
    """Return, in order, the timestamp (ms) of each partition's first committed record from an
    offset on; None: there is none. An error says why no replica of the partition can be read."""
    replicas = ReplicaStore(options)

    def one(place: tuple[PartitionKey, int]) -> int | KafkaOnSparkError | None:
        key, offset = place
        partition = image.topics[key.topic_id].partitions[key.partition]
        start, end = Offset(max(offset, partition.log_start_offset)), partition.high_watermark
        try:
            order = plan_read(image, key, start_offset=start, end_offset=end)
            rows = read_rows(
                order, replicas, options, has_headers=False, is_whole=False, on_deleted=pass_deleted
            )
            with closing(rows):
                return next((each.column("timestamp")[0].value // 1000 for each in rows), None)
        except KafkaOnSparkError as error:
            return error

    with DaemonThreads(LOOK_UP_THREADS, "times") as threads:
        return list(threads.map(one, places))
