"""Measures partitions by their leaders' logs, and the progress of reassignments."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kafka_on_spark.controller.moves.reassignment import list_reassignments
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.replicas import ReplicaStore

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
