"""What a consumer may read of a partition, as it is or at a cut, and from which replicas.

A reader gets records below the high watermark of one image: one consistent cut over all
partitions. It may read from any replica that proves to have them (see log/reading.py).
Between high watermark and log end a request gets nothing, and no error.

A cut is an image: the high watermarks of all partitions at one metadata offset. Compaction may have
left too little of an older one to read it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kafka_on_spark.base.errors import (
    InconsistentTopicIdError,
    InvalidRequestError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import (
    BrokerId,
    Offset,
    PartitionKey,
    ReplicaUuid,
    TopicPartition,
    check_mapping,
    check_whole_number,
)
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.metadata.partition import PartitionRegistration

Ranges = dict[int, tuple[Offset, Offset]]
"""Offsets by partition: from the first, up to and without the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOrder:
    """A range of one partition to read, planned on an image.

    Attributes:
        partition: Its registration in the image, which a replica proves itself against.
        end_offset: Exclusive; at most the high watermark.
        candidates: Replicas to read from: each goes on where the one before failed.
        compacted_max: A replica that is compacted above it lacks values of the cut that is read;
            None: what is there is read.
        tombstones_max: A replica that lacks tombstones above it lacks deletions that are read.
    """

    name: TopicPartition
    key: PartitionKey
    partition: PartitionRegistration
    start_offset: Offset
    end_offset: Offset
    candidates: tuple[ReplicaAddress, ...]
    compacted_max: Offset | None = None
    tombstones_max: Offset | None = None


def plan_read(
    image: MetadataImage,
    key: PartitionKey,
    *,
    start_offset: Offset,
    end_offset: Offset,
    client_rack: str | None = None,
) -> ReadOrder:
    """Return the order to read ``[start_offset, end_offset)``, cut to what is committed: between
    the high watermark and the log end it is empty. A start outside of the log is out of range."""
    partition = image.topics[key.topic_id].partitions[key.partition]
    name = image.name_of(key)
    if not partition.log_start_offset <= start_offset <= partition.known_log_end:
        raise OffsetOutOfRangeError(
            f"offset {start_offset} of {name} is not between its log start"
            f" {partition.log_start_offset} and its log end {partition.known_log_end}"
            f" (high watermark {partition.high_watermark})"
        )
    return ReadOrder(
        name=name,
        key=key,
        partition=partition,
        start_offset=start_offset,
        end_offset=max(start_offset, min(end_offset, partition.high_watermark)),
        candidates=tuple(
            address_of(image, key, partition, broker_id)
            for broker_id in replicas_to_read(image, partition, client_rack)
        ),
    )


def plan_reads(
    image: MetadataImage,
    topic: str,
    start: Mapping[int, int] | None = None,
    end: Mapping[int, int] | None = None,
    *,
    now: MetadataImage | None = None,
) -> list[ReadOrder]:
    """Return one order a partition that has committed records between `start` and `end`.

    `now`: the newest image, if `image` is of the past. Records committed by then are read from the
    replicas of now, then from those of that time; each must prove to have them.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic or partition.
        InvalidRequestError: Offsets are not given by partition, or one is not a number.
        OffsetOutOfRangeError: A start is below its log start or above its log end, or a partition
            was compacted above what had been committed then.
    """
    starts, ends = _offsets(image, topic, "start", start), _offsets(image, topic, "end", end)
    orders = []
    topic_image = image.topic(topic)
    for number, partition in sorted(topic_image.partitions.items()):
        order = plan_read(
            image,
            PartitionKey(topic_image.topic_id, number),
            start_offset=Offset(starts.get(number, partition.log_start_offset)),
            end_offset=Offset(ends.get(number, partition.high_watermark)),
        )
        if now is not None:
            order = of_cut(order, image, now)
        if order.start_offset < order.end_offset:
            orders.append(order if now is None else _from_replicas_of_now(order, now))
    return orders


def after_others(order: ReadOrder, suspects: frozenset[ReplicaUuid]) -> ReadOrder:
    if not suspects:
        return order

    def is_suspect(replica: ReplicaAddress) -> bool:
        return replica.replica_uuid in suspects

    return replace(order, candidates=tuple(sorted(order.candidates, key=is_suspect)))


def of_cut(order: ReadOrder, then: MetadataImage, now: MetadataImage) -> ReadOrder:
    partition = then.partition(order.key)
    if partition is None:
        return order  # the topic that has the name now is another one
    check_cut(order.name, partition.high_watermark, now.partition(order.key))
    return replace(order, compacted_max=partition.high_watermark)


def of_values(orders: Iterable[ReadOrder]) -> list[ReadOrder]:
    """Return orders to read the last value of each key below their ends."""
    return [replace(order, compacted_max=order.end_offset) for order in orders]


def of_changes(orders: Iterable[ReadOrder], ranges: Ranges) -> list[ReadOrder]:
    """Return orders to read, besides, what was deleted in their ranges, which are `ranges`. The
    order of another partition is left out: it was added after the later cut."""
    return [
        replace(order, tombstones_max=order.start_offset)
        for order in of_values(orders)
        if order.name.partition in ranges
    ]


def _from_replicas_of_now(order: ReadOrder, now: MetadataImage) -> ReadOrder:
    partition = now.partition(order.key)
    if partition is None:
        return order
    current = [
        address_of(now, order.key, partition, broker_id)
        for broker_id in replicas_to_read(now, partition, None)
    ]
    rest = (each for each in order.candidates if each not in current)
    return replace(order, candidates=(*current, *rest))


def _offsets(
    image: MetadataImage, topic: str, name: str, given: Mapping[int, int] | None
) -> Mapping[int, int]:
    if given is None:
        return {}
    check_mapping(given, name, "partitions and offsets")
    for number, offset in given.items():
        partition_key(image, topic, number)
        check_whole_number(offset, f"the offset of partition {number}")
    return given


def replicas_to_read(
    image: MetadataImage, partition: PartitionRegistration, client_rack: str | None
) -> list[BrokerId]:
    """Return the replicas to read from: in-sync ones before others; of these first the ones in the
    client's rack, then the leader, then in the order of the replicas.

    Others may serve too, since each must prove that it has everything committed. Source:
    RackAwareReplicaSelector (KIP-392).
    """

    def rank(broker_id: BrokerId) -> tuple[bool, bool, bool, bool, int]:
        broker = image.brokers[broker_id]
        return (
            # One that counts as dead is asked last: it may be back before the controller sees it.
            not broker.is_online,
            broker_id not in partition.isr,
            client_rack is not None and broker.rack != client_rack,
            broker_id != partition.leader,
            partition.replicas.index(broker_id),
        )

    return sorted(filter(partition.is_created, partition.replicas), key=rank)


def check_cut(
    name: TopicPartition, high_watermark: Offset, now: PartitionRegistration | None
) -> None:
    """Check that a partition has what it had when its high watermark was `high_watermark`."""
    below = Offset(0) if now is None else now.compaction.compacted_below
    _check_values(name, high_watermark, below)


def check_left(order: ReadOrder, left: CompactionProgress) -> None:
    """Check that a replica has what is read of a cut: it may have been compacted further since the
    read was planned."""
    if order.compacted_max is not None:
        _check_values(order.name, order.compacted_max, left.compacted_below)
    if order.tombstones_max is not None:
        _check_deletions(order.name, order.tombstones_max, left.tombstones_below)


def _check_values(name: TopicPartition, high_watermark: Offset, below: Offset) -> None:
    if high_watermark < below:
        raise OffsetOutOfRangeError(
            f"{name} can't be read as it was at high watermark {high_watermark}: it is compacted"
            f" below {below}, and a value that was the last of its key then may be gone; name a"
            " later moment"
        )


def ranges_between(
    before: MetadataImage, after: MetadataImage, now: MetadataImage, topic: str
) -> Ranges:
    """Return what was committed to each partition of a topic between two cuts.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic, or one of its partitions was removed.
        InconsistentTopicIdError: Another topic had the name at the first cut.
        InvalidRequestError: The cuts are in the wrong order.
        LogTruncatedError: Records were lost since the first one, by an unclean election, or as a
            partition was removed and added again.
        OffsetOutOfRangeError: Records between them are deleted, or tombstones among them are gone,
            or values of the later one.
    """
    if before.offset > after.offset:
        raise InvalidRequestError(
            f"there are no changes from metadata offset {before.offset} back to {after.offset}:"
            " name the earlier one first"
        )
    topic_id = after.topic(topic).topic_id
    if topic_id not in now.topics:
        raise UnknownTopicOrPartitionError(f"the topic {topic!r} of that moment was deleted")
    if before.topic_ids.get(topic) not in (None, topic_id):
        raise InconsistentTopicIdError(
            f"the topic {topic!r} was deleted and created again between the two moments: read the"
            " whole table again"
        )
    older = before.topics.get(topic_id)
    partitions = after.topics[topic_id].partitions
    removed = sorted(older.partitions.keys() - partitions.keys()) if older is not None else []
    if removed:
        raise UnknownTopicOrPartitionError(
            f"{TopicPartition(topic, removed[0])} was removed between the two moments: read the"
            " whole table again"
        )
    ranges: Ranges = {}
    for number, partition in sorted(partitions.items()):
        name, end = TopicPartition(topic, number), partition.high_watermark
        newest = now.topics[topic_id].partitions.get(number)
        if newest is None:
            raise UnknownTopicOrPartitionError(f"{name} of that moment was removed")
        was = None if older is None else older.partitions.get(number)
        start = Offset(0) if was is None else was.high_watermark
        check_cut(name, end, newest)
        # What became of a partition between its creation and the later cut makes no difference.
        _check_kept(name, start, end, was or partition, newest)
        ranges[number] = (start, end)
    return ranges


def _check_kept(
    name: TopicPartition,
    start: Offset,
    end: Offset,
    was: PartitionRegistration,
    now: PartitionRegistration,
) -> None:
    if was.unclean_generation != now.unclean_generation:
        raise LogTruncatedError(
            f"records of {name} were lost since, by an unclean election or as it was removed and"
            " added again: read the whole table again"
        )
    if start < min(now.log_start_offset, end):
        raise OffsetOutOfRangeError(
            f"records of {name} from {start} on are deleted, its log starts at"
            f" {now.log_start_offset}: read the whole table again"
        )
    if start < end:
        _check_deletions(name, start, now.compaction.tombstones_below)


def _check_deletions(name: TopicPartition, start: Offset, below: Offset) -> None:
    if start < below:
        raise OffsetOutOfRangeError(
            f"what was deleted from {name} since offset {start} can't be said, tombstones below"
            f" {below} are gone (delete.retention.ms): read the whole table again"
        )
