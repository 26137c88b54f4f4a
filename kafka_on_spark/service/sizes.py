"""How large partitions are, as their leaders' logs say."""

from collections.abc import Callable, Iterable, Sequence

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import ReplicaAddress, ReplicaStore
from kafka_on_spark.service.addresses import address_of

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

    What was never made has none.
    """
    sizes: dict[PartitionKey, int | None] = {}
    orders = []
    for key in keys:
        partition = image.topics[key.topic_id].partitions[key.partition]
        sizes[key] = None if partition.leader is None else 0
        if partition.leader is not None and partition.is_made(partition.leader):
            orders.append(address_of(image, key, partition, partition.leader))
    found = run_sizes(orders) if orders else []
    return sizes | {order.key: size for order, size in zip(orders, found, strict=True)}
