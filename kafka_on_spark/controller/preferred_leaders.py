"""When preferred leaders lead again: by request, or where a broker lacks too many leaderships.

Source: Kafka's auto.leader.rebalance and leader.imbalance.per.broker.percentage.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from kafka_on_spark.base.ids import BrokerId, PartitionKey, TopicId
from kafka_on_spark.controller.election import Election, elect_leader
from kafka_on_spark.controller.partition_change import change_records
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.result import ControllerResult

LIMIT = "leader.imbalance.per.broker.percentage"


def elect_preferred(
    image: MetadataImage, cause: str, keys: Iterable[PartitionKey] | None = None
) -> ControllerResult[list[PartitionKey]]:
    """Decide that preferred leaders lead again where they are in sync. Answer: the partitions."""
    eligible = image.eligible_brokers()
    # A million partitions have a hundred leaders: equal changes are one value.
    changes = {broker_id: PartitionChange(leader=broker_id) for broker_id in image.brokers}
    changed: dict[TopicId, list[tuple[int, PartitionRegistration, PartitionChange]]] = {}
    moved = []
    for key, partition in image.partitions() if keys is None else _existing(image, keys):
        leader = elect_leader(
            partition, eligible=eligible, election=Election.PREFERRED, suspects=image.suspects
        )
        # The leader is in the ISR, so the changed registration is valid without a merge.
        if leader is not None and leader != partition.leader and leader in partition.isr:
            one = (key.partition, partition, changes[leader])
            changed.setdefault(key.topic_id, []).append(one)
            moved.append(key)
    records = [
        record
        for topic_id, decided in changed.items()
        for record in change_records(image.topics[topic_id], decided, cause)
    ]
    return ControllerResult(records, moved)


def _existing(
    image: MetadataImage, keys: Iterable[PartitionKey]
) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    """Yield the partitions of `keys` that exist, each once."""
    for key in dict.fromkeys(keys):
        partition = image.partition(key)
        if partition is not None:
            yield key, partition


def rebalance_leaders(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
    """Decide that eligible brokers lead again what they should, if they lack more than the limit.

    Answer: the partitions whose leader moves.
    """
    limit = image.settings().integer(LIMIT)
    unbalanced = {
        broker_id: percentage
        for broker_id, percentage in imbalance_percentages(image).items()
        if percentage > limit and image.is_eligible(broker_id)
    }
    if not unbalanced:
        return ControllerResult([], [])
    keys = [
        key
        for key, partition in image.partitions_needing_work()
        if partition.replicas[0] in unbalanced
    ]
    return elect_preferred(image, _cause(unbalanced, limit), keys)


def imbalance_percentages(image: MetadataImage) -> dict[BrokerId, float]:
    """Return the share of each broker's preferred leaderships that others hold, in per cent, if
    others hold any."""
    elsewhere = Counter(
        partition.replicas[0]
        for _, partition in image.partitions_needing_work()
        if partition.leader != partition.replicas[0]
    )
    if not elsewhere:
        return {}
    preferred = Counter(partition.replicas[0] for _, partition in image.partitions())
    return {
        broker_id: 100.0 * count / preferred[broker_id] for broker_id, count in elsewhere.items()
    }


def _cause(unbalanced: Mapping[BrokerId, float], limit: int) -> str:
    shares = ", ".join(
        f"broker {broker_id} lacks {share:.0f} %" for broker_id, share in sorted(unbalanced.items())
    )
    return f"preferred leaders: {shares} of its leaderships ({LIMIT}={limit})"
