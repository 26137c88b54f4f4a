"""What a new generation of the cluster begins with, and how it gets above the fences of the old.

A majority of the metadata roots is lost for ever, and one goes on alone. What was lost may have
held a smaller ISR, a later leader or a higher high watermark. So nobody is trusted to be in sync:
each partition is led anew by proof, or uncleanly (see `recovery`).
"""

from collections.abc import Mapping
from typing import Final

from kafka_on_spark.base.errors import InconsistentClusterError
from kafka_on_spark.base.ids import LeaderEpoch, PartitionKey
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import ClusterRecord, Record
from kafka_on_spark.metadata.result import ControllerResult

RAISES_MAX: Final = 10_000
"""A replica that has seen so many more leaderships than the metadata is no replica of it."""


def begin_generation(image: MetadataImage, generation: int, cause: str) -> list[Record]:
    """Return the records by which a new generation begins: no partition has a leader, and none a
    replica in sync but those that nothing was ever appended to, as far as is known."""
    assert image.cluster_id is not None, "a cluster that was made has an id"
    records: list[Record] = [
        ClusterRecord(cluster_id=image.cluster_id, generation=generation, cause=cause)
    ]
    for key, partition in image.partitions():
        change = PartitionChange(leader=None)
        if _has_replicas(partition):
            change = PartitionChange(leader=None, isr=frozenset(), elr=frozenset())
        records.append(change_record(image, key, partition, change, cause))
    return records


def awaiting_leaders(image: MetadataImage) -> list[PartitionKey]:
    """Return the partitions that a new generation has given no leader as yet."""
    return [
        key
        for key, partition in image.partitions_needing_work()
        if partition.leader is None and not partition.isr
    ]


def raise_above(
    image: MetadataImage, fences: Mapping[PartitionKey, LeaderEpoch], cause: str
) -> ControllerResult[int]:
    """Decide leaderships without a leader, so many that the next one is above the highest fence
    that was found on a partition's replicas. Answer: of how many partitions.

    Raises:
        InconsistentClusterError: A fence is out of reach.
    """
    records: list[Record] = []
    raised = 0
    for key, fence in sorted(fences.items()):
        partition = image.partition(key)
        if partition is None or partition.leader is not None or partition.leader_epoch > fence:
            continue
        if fence - partition.leader_epoch > RAISES_MAX:
            raise InconsistentClusterError(
                f"a replica of {image.name_of(key)} has seen leadership {fence}, and the metadata"
                f" knows {partition.leader_epoch}: this is another cluster's metadata"
            )
        raised += 1
        while partition.leader_epoch <= fence:
            change = PartitionChange(leader=None)
            records.append(change_record(image, key, partition, change, cause))
            partition = partition.merge(partition.completed(change))
    return ControllerResult(records, raised)


def _has_replicas(partition: PartitionRegistration) -> bool:
    return any(map(partition.is_created, partition.replicas)) or partition.high_watermark > 0
