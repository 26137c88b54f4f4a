"""The sizes of replicas on their brokers' disks, as kafka-log-dirs shows them; of partitions, by
their leaders' logs; and the progress of reassignments."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.moves.reassignment import list_reassignments
from kafka_on_spark.errors import KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.ids import LOST, BrokerId, Offset, PartitionKey, TopicPartition
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.replicas import ReplicaStore

Found = ReplicaState | KafkaOnSparkError
"""The state of a replica's table, or the error for why it can't be read."""

IS_LOST: Final = "the replica is lost, and was not made again yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """The size of one replica.

    Attributes:
        name: The partition.
        broker_id: The broker that has the replica.
        root: URL of the broker's root.
        size_bytes: Of the segments in its log; None if it can't be read.
        log_end_offset: Of its log; None if it can't be read.
        offset_lag: Committed offsets that it lacks; None if it can't be read.
        is_in_sync: It is in the ISR.
        is_future: A reassignment under way adds it.
        error: The reason why it can't be read, in a sentence.
    """

    name: TopicPartition
    broker_id: BrokerId
    root: str
    size_bytes: int | None
    log_end_offset: Offset | None
    offset_lag: int | None
    is_in_sync: bool
    is_future: bool
    error: str | None


def created_replicas(
    image: MetadataImage,
    topics: Collection[str] | None = None,
    brokers: Collection[int] | None = None,
) -> list[ReplicaAddress]:
    """Return the addresses of created replicas, of some topics or brokers if given, in order of
    broker and name."""
    return _replicas(image, topics, brokers, PartitionRegistration.is_created)


def lost_sizes(
    image: MetadataImage,
    topics: Collection[str] | None = None,
    brokers: Collection[int] | None = None,
) -> list[ReplicaSize]:
    """Return the lost replicas that were not made again, of some topics or brokers if given.

    A replica that is the last member of its ISR is never made again: its records are nowhere else.
    """
    lost = _replicas(image, topics, brokers, _is_lost)
    return [replica_size(image, each, ReplicaLostError(IS_LOST)) for each in lost]


def _is_lost(partition: PartitionRegistration, broker_id: BrokerId) -> bool:
    return partition.directory_of(broker_id) == LOST


def _replicas(
    image: MetadataImage,
    topics: Collection[str] | None,
    brokers: Collection[int] | None,
    is_meant: Callable[[PartitionRegistration, BrokerId], bool],
) -> list[ReplicaAddress]:
    found = [
        (broker_id, image.name_of(key), address_of(image, key, partition, broker_id))
        for key, partition in image.partitions()
        if topics is None or image.topics[key.topic_id].name in topics
        for broker_id in partition.replicas
        if is_meant(partition, broker_id) and (brokers is None or broker_id in brokers)
    ]
    return [address for _, _, address in sorted(found, key=lambda each: each[:2])]


def replica_size(image: MetadataImage, address: ReplicaAddress, found: Found) -> ReplicaSize:
    """Return the size of a replica by its table, or the error for why it can't be read."""
    partition = image.partition(address.key)
    assert partition is not None, "planned on this image"
    state = None if isinstance(found, KafkaOnSparkError) else found
    return ReplicaSize(
        name=image.name_of(address.key),
        broker_id=address.broker_id,
        root=address.root,
        size_bytes=None if state is None else sum(each.size_bytes for each in state.batches),
        log_end_offset=None if state is None else state.log_end_offset,
        offset_lag=(
            None if state is None else max(0, partition.high_watermark - state.log_end_offset)
        ),
        is_in_sync=address.broker_id in partition.isr,
        is_future=address.broker_id in partition.adding_replicas,
        error=found.message if isinstance(found, KafkaOnSparkError) else None,
    )


RunSizes = Callable[[Sequence[ReplicaAddress]], list[int | None]]


def size_of(address: ReplicaAddress, replicas: ReplicaStore) -> int | None:
    """Return the bytes of a replica's segments; None if it can't be read."""
    try:
        state = replicas.open(address).load()
    except KafkaOnSparkError:
        return None
    return sum(batch.size_bytes for batch in state.batches)


def partition_sizes(
    image: MetadataImage, keys: Iterable[PartitionKey], run_sizes: RunSizes
) -> dict[PartitionKey, int | None]:
    """Return the bytes of one replica of each partition; None where no leader can tell.

    A partition whose leader's replica was never created has none.
    """
    sizes: dict[PartitionKey, int | None] = {}
    orders = []
    for key in keys:
        partition = image.topics[key.topic_id].partitions[key.partition]
        sizes[key] = None if partition.leader is None else 0
        if partition.leader is not None and partition.is_created(partition.leader):
            orders.append(address_of(image, key, partition, partition.leader))
    found = run_sizes(orders) if orders else []
    return sizes | {order.key: size for order, size in zip(orders, found, strict=True)}


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


def move_progress(image: MetadataImage, run_sizes: RunSizes) -> list[MoveProgress]:
    """Return the progress of the reassignments under way.

    A replica that can't be read counts as empty; a leader that can't be read counts as no larger
    than the adding replicas.
    """
    moves = list_reassignments(image)
    sizes = partition_sizes(image, [move.key for move in moves], run_sizes)
    adding = [
        address_of(image, move.key, partition, broker_id)
        for move in moves
        for partition in [image.topics[move.key.topic_id].partitions[move.key.partition]]
        for broker_id in move.adding
        if partition.is_created(broker_id)
    ]
    held_by_key: dict[PartitionKey, list[int]] = {move.key: [] for move in moves}
    for address, size in zip(adding, run_sizes(adding) if adding else [], strict=True):
        held_by_key[address.key].append(size or 0)
    progress = []
    for move in moves:
        held = held_by_key[move.key]
        total = max([sizes[move.key] or 0, *held])
        progress.append(
            MoveProgress(
                name=move.name,
                waits_for=move.waits_for,
                copied_bytes=sum(held),
                total_bytes=total * len(move.adding),
            )
        )
    return progress
