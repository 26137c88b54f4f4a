"""Checks of replicas that a user assigns."""

from collections.abc import Mapping, Sequence

from kafka_on_spark.errors import InvalidReplicaAssignmentError, InvalidRequestError
from kafka_on_spark.ids import BrokerId, check_mapping, check_whole_number, listed
from kafka_on_spark.metadata.image import MetadataImage


def check_assignment(
    image: MetadataImage,
    assignment: Mapping[int, Sequence[int]],
    numbers: range | None = None,
    *,
    replication_factor: int | None = None,
) -> list[tuple[BrokerId, ...]]:
    """Return the replicas that are assigned to partitions `numbers`, the preferred leader first.

    Brokers are known, each is named once, and all partitions have the same number of them:
    `replication_factor`, if it is given. No `numbers`: from 0 on, no gap. Source:
    ReplicationControlManager.validateManualPartitionAssignment.

    Raises:
        InvalidReplicaAssignmentError: They are not; the sentence says why.
    """
    _check_kinds(assignment)
    wanted = range(max(len(assignment), 1)) if numbers is None else numbers
    if sorted(assignment) != list(wanted):
        raise InvalidReplicaAssignmentError(
            f"the assignment names partitions {sorted(assignment)}: name each from {wanted[0]}"
            f" {'on' if numbers is None else f'to {wanted[-1]}'}, no gap"
        )
    sizes = {len(replicas) for replicas in assignment.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise InvalidReplicaAssignmentError(
            f"the assignment gives partitions {sorted(sizes)} replicas: give all the same number"
        )
    if replication_factor is not None and sizes != {replication_factor}:
        raise InvalidReplicaAssignmentError(
            f"the assignment gives partitions {sizes.pop()} replicas, and the topic's have"
            f" {replication_factor}: give as many"
        )
    for number, replicas in assignment.items():
        _check_brokers(image, number, replicas)
    return [tuple(BrokerId(each) for each in assignment[number]) for number in wanted]


def _check_kinds(assignment: Mapping[int, Sequence[int]]) -> None:
    error = InvalidReplicaAssignmentError
    check_mapping(assignment, "replica_assignment", "partitions and lists of broker ids", error)
    for number, replicas in assignment.items():
        check_whole_number(number, "a partition of replica_assignment", error)
        name = f"the brokers of partition {number}"
        for each in listed(replicas, name, "broker ids", error):
            check_whole_number(each, f"a broker of partition {number}", error)


def _check_brokers(image: MetadataImage, number: int, replicas: Sequence[int]) -> None:
    unknown = set(replicas) - image.brokers.keys()
    if unknown or len(set(replicas)) != len(replicas):
        raise InvalidReplicaAssignmentError(
            f"partition {number} can't be on brokers {list(replicas)}: name each registered"
            f" broker once at most (registered: {sorted(image.brokers)})"
        )
    if not any(image.is_eligible(BrokerId(each)) for each in replicas):
        raise InvalidReplicaAssignmentError(
            f"partition {number} would be on fenced brokers only, {list(replicas)}: name"
            " at least one that is active"
        )


def check_agrees(
    assignment: Sequence[Sequence[int]],
    partition_count: int | None,
    replication_factor: int | None,
) -> None:
    """Check that the numbers given with an assignment agree with it. (Kafka takes no numbers with
    one: ReplicationControlManager.createTopic.)"""
    counts = len(assignment), len(assignment[0])
    if partition_count not in (None, counts[0]) or replication_factor not in (None, counts[1]):
        raise InvalidRequestError(
            f"an assignment of {counts[0]} partitions with {counts[1]} replicas each was given, and"
            f" {partition_count} partitions with {replication_factor} replicas: leave the numbers"
            " out, or give the same"
        )
