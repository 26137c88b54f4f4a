"""Says what upkeep does not come to: a report says of it neither that it is done nor what is due.

Orders leave out replicas whose brokers are fenced, cleaning leaves out their roots, and retention
and compaction are decided on the log of a leader. Apart from the plans, which ask for what can be
done: these are sentences for people, of `maintain` alone.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from kafka_on_spark.controller.partitions.compaction import is_compacted
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.log.upkeep.retention import limits_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration

_OFFLINE: Final = "the broker is fenced"


def replicas_not_looked_at(image: MetadataImage, keys: Iterable[PartitionKey]) -> Iterator[str]:
    """Yield a sentence for each created replica of `keys` that has no order, and for each partition
    of which nothing can be decided."""
    for key in keys:
        partition = image.partition(key)
        if partition is None:
            continue
        name = image.name_of(key)
        for broker_id in partition.replicas:
            if partition.is_created(broker_id) and not _is_online(image, broker_id):
                yield f"{name} on broker {broker_id}: {_OFFLINE}"
        if partition.leader is None and _has_decisions(image, key, partition):
            yield f"{name}: it has no leader, on whose log retention and compaction are decided"


def roots_not_looked_at(image: MetadataImage) -> Iterator[str]:
    """Yield a sentence for each broker's root that is not cleaned."""
    for broker_id in image.brokers:
        if not _is_online(image, broker_id):
            yield f"the root of broker {broker_id}: {_OFFLINE}"


def _is_online(image: MetadataImage, broker_id: BrokerId) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.has_upkeep


def _has_decisions(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration
) -> bool:
    """Return whether a leader could show that something is due to be deleted or compacted."""
    settings = image.settings(key.topic_id)
    is_asked_for = limits_of(settings) is not None or is_compacted(settings)
    return is_asked_for and partition.high_watermark > partition.log_start_offset
