"""The sizes of replicas on their brokers' disks, as kafka-log-dirs shows them; of partitions, by
their leaders' logs; and the progress of reassignments."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from kafka_on_spark.base.errors import KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.base.ids import BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.controller.reassignment import list_reassignments
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage

Found = ReplicaState | KafkaOnSparkError
"""The state of a replica's table, or the error for why it can't be read."""

IS_LOST: Final = "the replica is lost, and was not made again yet"


Load = Callable[[Sequence[ReplicaAddress]], Iterable[tuple[ReplicaAddress, Found]]]
"""Returns what each replica's table holds, in order."""


def replica_sizes(
    image: MetadataImage,
    topics: Collection[str] | None,
    brokers: Collection[int] | None,
    load: Load,
) -> list[dict[str, Any]]:
    """Return a row for each created or lost replica (None: of all topics, on all brokers), by
    broker and partition: its bytes and end, the committed offsets that it lacks, whether it is in
    sync, and whether a reassignment under way adds it. One that can't be read has an error in place
    of figures.

    A lost replica that is the last member of its ISR is never made again: its records are nowhere
    else.
    """
    held = [
        (address_of(image, key, partition, broker_id), partition)
        for key, partition in image.partitions()
        if topics is None or image.topics[key.topic_id].name in topics
        for broker_id in partition.replicas
        if brokers is None or broker_id in brokers
        if partition.directory_of(broker_id) is not None
    ]
    created = [each for each, partition in held if partition.is_created(each.broker_id)]
    found = dict(load(created))
    rows = []
    for address, partition in held:
        answer = found.get(address, ReplicaLostError(IS_LOST))
        state = answer if isinstance(answer, ReplicaState) else None
        error = answer.message if isinstance(answer, KafkaOnSparkError) else None
        lag = None if state is None else max(0, partition.high_watermark - state.log_end_offset)
        rows.append(
            {
                "broker": address.broker_id,
                "root": address.root,
                **image.name_of(address.key)._asdict(),
                "size_bytes": None if state is None else _bytes_of(state),
                "log_end_offset": None if state is None else state.log_end_offset,
                "offset_lag": lag,
                "is_in_sync": address.broker_id in partition.isr,
                "is_future": address.broker_id in partition.adding_replicas,
                "error": error,
            }
        )
    return sorted(rows, key=itemgetter("broker", "topic", "partition"))


def _bytes_of(state: ReplicaState) -> int:
    return sum(batch.size_bytes for batch in state.batches)


RunSizes = Callable[[Sequence[ReplicaAddress]], list[int | None]]


def size_of(address: ReplicaAddress, replicas: ReplicaStore) -> int | None:
    """Return the bytes of a replica's segments; None if it can't be read."""
    try:
        state = replicas.open(address).load()
    except KafkaOnSparkError:
        return None
    return _bytes_of(state)


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
