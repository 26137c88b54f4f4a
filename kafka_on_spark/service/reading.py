"""What a consumer may see of a partition, and from whom.

A reader gets records below the high watermark of one image: one consistent cut over all
partitions. It reads from any member of the ISR whose log proves itself; between high watermark
and log end a request gets nothing, not an error.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from kafka_on_spark.errors import (
    KafkaOnSparkError,
    KafkaStorageError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.ids import (
    BrokerId,
    Offset,
    PartitionKey,
    TopicPartition,
    check_mapping,
    check_whole_number,
)
from kafka_on_spark.log.batch import Batch, Segment
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import ReplicaAddress, ReplicaStore
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.partition_names import partition_key
from kafka_on_spark.service.replicas import check_complete

Rows = TypeVar("Rows")

NoteFailure = Callable[[ReplicaAddress, Segment | None, KafkaOnSparkError], None]
"""Told of a replica that could not be read: of its log, or of one segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOrder:
    """A range of one partition to read, planned on an image.

    Attributes:
        name: The partition as people name it.
        key: The same as the system does.
        partition: Its registration in the image: a replica proves itself against that.
        start_offset: First offset wanted.
        end_offset: Exclusive; at most the high watermark.
        candidates: Replicas to read from, the first that works.
    """

    name: TopicPartition
    key: PartitionKey
    partition: PartitionRegistration
    start_offset: Offset
    end_offset: Offset
    candidates: tuple[ReplicaAddress, ...]


def plan_read(
    image: MetadataImage,
    key: PartitionKey,
    *,
    start_offset: Offset,
    end_offset: Offset,
    client_rack: str | None = None,
) -> ReadOrder:
    """Return the order to read ``[start_offset, end_offset)``, cut to what is committed.

    Between the high watermark and the log end nothing can be read yet: the order is empty.

    Raises:
        OffsetOutOfRangeError: The start is below the log start or above the log end.
    """
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
            for broker_id in readers_choice(image, partition, client_rack)
        ),
    )


def plan_reads(
    image: MetadataImage,
    topic: str,
    start: Mapping[int, int] | None = None,
    end: Mapping[int, int] | None = None,
    *,
    client_rack: str | None = None,
    now: MetadataImage | None = None,
) -> list[ReadOrder]:
    """Return one order a partition that has committed records between `start` and `end`.

    `now`: what the cluster has become since `image`. What was committed then is read from the
    replicas of today, then from those of that time, each of which must prove to have it.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic or partition.
        InvalidRequestError: Offsets are not given by partition, or one is no number.
        OffsetOutOfRangeError: A start is below its log start or above its log end.
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
            client_rack=client_rack,
        )
        if order.start_offset < order.end_offset:
            orders.append(order if now is None else _from_today(order, now, client_rack))
    return orders


def _from_today(order: ReadOrder, now: MetadataImage, client_rack: str | None) -> ReadOrder:
    partition = now.partition(order.key)
    if partition is None:
        return order
    today = [
        address_of(now, order.key, partition, broker_id)
        for broker_id in readers_choice(now, partition, client_rack)
    ]
    rest = (each for each in order.candidates if each not in today)
    return replace(order, candidates=(*today, *rest))


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


def readers_choice(
    image: MetadataImage, partition: PartitionRegistration, client_rack: str | None
) -> list[BrokerId]:
    """Return the replicas to read from: the client's rack first, the leader before others.

    In-sync ones first; others may serve too, since each must prove that it has everything
    (Source: RackAwareReplicaSelector, KIP-392).
    """

    def rank(broker_id: BrokerId) -> tuple[bool, bool, bool, int]:
        broker = image.brokers[broker_id]
        return (
            broker_id not in partition.isr,
            client_rack is not None and broker.rack != client_rack,
            broker_id != partition.leader,
            partition.replicas.index(broker_id),
        )

    readable = [
        broker_id
        for broker_id in partition.replicas
        if partition.is_made(broker_id) and image.brokers[broker_id].is_online
    ]
    # A broker believed dead is asked last: it may have come back before the controller saw it.
    rest = [
        broker_id
        for broker_id in partition.replicas
        if partition.is_made(broker_id) and broker_id not in readable
    ]
    return sorted(readable, key=rank) + sorted(rest, key=rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A segment that holds a part of a range, on the replica that is read.

    Attributes:
        address: The replica.
        batch: The batch that the segment belongs to.
        segment: The file.
        base_offset: Offset of its first record, which may lie before the range.
    """

    address: ReplicaAddress
    batch: Batch
    segment: Segment
    base_offset: Offset

    @property
    def end_offset(self) -> Offset:
        """Offset after its last record, which may lie behind the range."""
        return Offset(self.base_offset + self.segment.record_count)


def read_pieces(
    order: ReadOrder,
    replicas: ReplicaStore,
    read: Callable[[Piece, Offset], Iterable[Rows]],
    note: NoteFailure = lambda address, segment, error: None,
) -> Iterator[Rows]:
    """Yield what `read` makes of the range's segments, in offset order.

    `read` is given a segment and the first offset that is wanted of it. If a replica fails in
    the middle, another goes on at the next offset, and `note` is told.

    Raises:
        KafkaStorageError: No replica can serve the rest of the range; says why, each.
    """
    position = order.start_offset
    reasons = []
    for address in order.candidates:
        if position >= order.end_offset:
            return
        piece = None
        try:
            for piece in _pieces(order, address, replicas, position):
                yield from read(piece, position)
                position = Offset(min(piece.end_offset, order.end_offset))
        except KafkaOnSparkError as error:
            reasons.append(f"broker {address.broker_id}: {error}")
            note(address, None if piece is None else piece.segment, error)
    if position < order.end_offset:
        raise nobody_can_serve(order, reasons)


def _pieces(
    order: ReadOrder, address: ReplicaAddress, replicas: ReplicaStore, position: Offset
) -> Iterator[Piece]:
    """Yield the segments that hold the rest of the range.

    Raises:
        NotLeaderOrFollowerError: The log start has moved on: the image is old.
        ReplicaLostError: The replica does not prove that it has all committed records.
    """
    state = replicas.open(address).load()
    check_complete(state, order.partition)
    for batch in state.batches_between(position, order.end_offset):
        base_offset = batch.base_offset
        for segment in batch.segments:
            piece = Piece(address=address, batch=batch, segment=segment, base_offset=base_offset)
            if piece.base_offset < order.end_offset and piece.end_offset > position:
                yield piece
            base_offset = piece.end_offset


def nobody_can_serve(order: ReadOrder, reasons: list[str]) -> KafkaStorageError:
    """Return the error for a range that no replica can serve."""
    asked = "; ".join(reasons) or "no replica of it was ever made"
    return KafkaStorageError(
        f"offsets {order.start_offset} to {order.end_offset} of {order.name} can't be read from"
        f" any replica: {asked}"
    )
