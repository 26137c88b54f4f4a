"""Checks of what a reassignment is asked for: its target and its rate."""

from collections.abc import Sequence

from kafka_on_spark.errors import (
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration


def check_throttle(bytes_per_s: int | None) -> None:
    """Check the rate of a move; None is no limit.

    Raises:
        InvalidRequestError: It is no whole number of at least one byte a second.
    """
    is_number = isinstance(bytes_per_s, int) and not isinstance(bytes_per_s, bool)
    if bytes_per_s is not None and not (is_number and bytes_per_s >= 1):
        raise InvalidRequestError(
            f"a reassignment can't be throttled to {bytes_per_s!r} bytes a second: give a whole"
            " number of at least 1, or none for no limit"
        )


def check_target(
    image: MetadataImage, key: PartitionKey, target: Sequence[int]
) -> tuple[BrokerId, ...]:
    """Return the target replicas of a partition, checked.

    Raises:
        InvalidReplicaAssignmentError: It is empty, names a broker twice, an unknown one, or
            for a new replica one that is not active.
    """
    current = registered_partition(image, key).replicas
    name = image.name_of(key)
    if not _is_broker_list(target):
        raise InvalidReplicaAssignmentError(
            f"{name} can't be on brokers {target!r}: give a list of brokers' numbers"
        )
    if not target or len(set(target)) != len(target):
        raise InvalidReplicaAssignmentError(
            f"{name} can't be on brokers {list(target)}: name at least one, and each once"
        )
    unknown = set(target) - image.brokers.keys()
    if unknown:
        raise InvalidReplicaAssignmentError(
            f"{name} can't be on brokers {sorted(unknown)}, which are not registered: name some"
            f" of {sorted(image.brokers)}"
        )
    idle = [
        each for each in target if each not in current and not image.is_eligible(BrokerId(each))
    ]
    if idle:
        states = ", ".join(
            f"{each} is {image.brokers[BrokerId(each)].state.value}" for each in idle
        )
        raise InvalidReplicaAssignmentError(
            f"{name} can't move to brokers that take no replicas now, {states}: bring them back"
            " first, or name others"
        )
    return tuple(BrokerId(each) for each in target)


def _is_broker_list(target: object) -> bool:
    return isinstance(target, list | tuple) and all(isinstance(each, int) for each in target)


def registered_partition(image: MetadataImage, key: PartitionKey) -> PartitionRegistration:
    """Return the registration of `key`.

    Raises:
        UnknownTopicOrPartitionError: There is none.
    """
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError(
            f"there is no partition {key.partition} of topic {key.topic_id}: name one that is there"
        )
    return partition
