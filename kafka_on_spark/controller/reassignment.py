"""Moving a partition's replicas: start, the steps to the end, cancel, list, verify.

Each step is one commit, and the registration alone says which step is next: another controller
continues where one died between two steps. The steps are the older controller's phases (A: start,
B3: leader, B4: ISR, end: replicas); which replicas come and go is decided as in KRaft, by
PartitionReassignmentReplicas and PartitionReassignmentRevert.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from kafka_on_spark.base.errors import (
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    NoReassignmentInProgressError,
    ReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import KEEP, BrokerId, PartitionKey, ReplicaUuid, TopicPartition
from kafka_on_spark.controller.partition_change import Election, change_record, elect_leader
from kafka_on_spark.controller.topics import NewUuid
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import Record
from kafka_on_spark.metadata.result import ControllerResult


@dataclass(frozen=True, slots=True)
class Roles:
    """The replicas that are registered meanwhile (the target in its order, then those that go), and
    those that come and that go, ascending."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


def roles_of(current: Sequence[BrokerId], target: Sequence[BrokerId]) -> Roles:
    """Return the roles between two assignments. Source: PartitionReassignmentReplicas."""
    removing = tuple(sorted(set(current) - set(target)))
    return Roles(
        replicas=(*target, *removing),
        adding=tuple(sorted(set(target) - set(current))),
        removing=removing,
    )


def start_reassignments(
    image: MetadataImage,
    targets: Mapping[PartitionKey, Sequence[int]],
    *,
    new_uuid: NewUuid,
    cause: str,
    throttle_bytes_per_s: int | None = None,
) -> ControllerResult[list[PartitionKey]]:
    """Decide that partitions move to `targets` (step A). All or none. Answer: which change.

    The replicas that come begin to fetch; another order of the same replicas is done at once.
    `throttle_bytes_per_s`: the rate of all their copying; for a move under way to the same target,
    its rate from now on. It is a part of the move, and ends with it.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition.
        ReassignmentInProgressError: It is being reassigned: cancel that first, or wait.
        InvalidReplicaAssignmentError: A target is empty, or names a broker twice, an unknown one,
            or as a new replica's place one that is not active.
        InvalidRequestError: The throttle is less than a byte a second.
    """
    check_throttle(throttle_bytes_per_s)
    records: list[Record] = []
    started = []
    for key, target in targets.items():
        partition = registered_partition(image, key)
        checked = check_target(image, key, target)
        change = _retimed(partition, checked, throttle_bytes_per_s)
        if change is None and partition.is_reassigning:
            raise ReassignmentInProgressError(
                f"{image.name_of(key)} is being reassigned to {list(partition.target_replicas)}"
                " already: wait until it is done, or cancel it first"
            )
        if change is None:
            change = start_of_move(partition, checked, new_uuid, throttle_bytes_per_s)
        if change is not None:
            records.append(change_record(image, key, partition, change, cause))
            started.append(key)
    return ControllerResult(records, started)


def _retimed(
    partition: PartitionRegistration,
    target: tuple[BrokerId, ...],
    throttle_bytes_per_s: int | None,
) -> PartitionChange | None:
    """Return the change of a move's rate; None unless it is under way to the same target."""
    is_same = partition.is_reassigning and partition.target_replicas == target
    if not is_same or partition.throttle_bytes_per_s == throttle_bytes_per_s:
        return None
    return PartitionChange(throttle_bytes_per_s=throttle_bytes_per_s)


def start_of_move(
    partition: PartitionRegistration,
    target: tuple[BrokerId, ...],
    new_uuid: NewUuid,
    throttle_bytes_per_s: int | None = None,
) -> PartitionChange | None:
    """Return the change with which a partition begins to move to `target`; None: it is there.

    Of a partition that is moving elsewhere the new target replaces the old one (KRaft's rule):
    replicas that came for the old one go with the rest, and none that was there is dropped before
    all of the new target is in sync.
    """
    roles = roles_of(partition.replicas, target)
    moves = (partition.adding_replicas, partition.removing_replicas)
    if roles.replicas == partition.replicas and moves == (roles.adding, roles.removing):
        return None
    throttle = throttle_bytes_per_s if roles.adding or roles.removing else None
    known = dict(zip(partition.replicas, partition.replica_uuids, strict=True))
    made = dict(zip(partition.replicas, partition.directories, strict=True))
    return PartitionChange(
        replicas=roles.replicas,
        # A replica that comes back to a broker is another incarnation.
        replica_uuids=tuple(
            known[each] if each in known else ReplicaUuid(new_uuid()) for each in roles.replicas
        ),
        directories=tuple(made.get(each) for each in roles.replicas),
        adding_replicas=KEEP if roles.adding == moves[0] else roles.adding,
        removing_replicas=KEEP if roles.removing == moves[1] else roles.removing,
        throttle_bytes_per_s=KEEP if throttle == partition.throttle_bytes_per_s else throttle,
    )


def advance_reassignments(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
    """Decide the next step of every reassignment that has one now. Answer: the partitions.

    To be called again until nothing moves; a step whose commit was lost is decided again.
    """
    eligible = image.eligible_brokers()
    records: list[Record] = []
    moved = []
    for key, partition in image.partitions_needing_work():
        step = next_step(partition, eligible, image.suspects)
        if step is not None:
            change, cause = step
            records.append(change_record(image, key, partition, change, cause))
            moved.append(key)
    return ControllerResult(records, moved)


def next_step(
    partition: PartitionRegistration,
    eligible: frozenset[BrokerId],
    suspects: frozenset[ReplicaUuid] = frozenset(),
) -> tuple[PartitionChange, str] | None:
    """Return the next step of a reassignment, and why; None while it must wait.

    It waits until all of the target is in sync, the replicas that stay as well as those that are
    added. Source: PartitionReassignmentReplicas.
    """
    target = partition.target_replicas
    if not partition.is_reassigning or not partition.isr.issuperset(target):
        return None
    words = " ".join(map(str, target))
    if partition.leader not in target:  # B3
        leader = elect_leader(
            _within(partition, target),
            eligible=eligible,
            election=Election.ONLINE,
            suspects=suspects,
        )
        if leader is None:
            return None
        return PartitionChange(leader=leader), f"reassignment: leader moves into {words}"
    going = frozenset(partition.removing_replicas)
    if (partition.isr | partition.elr) & going:  # B4
        change = PartitionChange(isr=partition.isr - going, elr=partition.elr - going)
        return change, f"reassignment: {words} are in sync, the others leave the ISR"
    return _only(partition, target, leader=partition.leader), f"reassignment to {words} is done"


def _within(
    partition: PartitionRegistration, replicas: tuple[BrokerId, ...]
) -> PartitionRegistration:
    """Return a registration as if only `replicas` were assigned, without a leader."""
    change = _only(partition, replicas, leader=None)
    return replace(
        partition.merge(change),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def _only(
    partition: PartitionRegistration, replicas: tuple[BrokerId, ...], *, leader: BrokerId | None
) -> PartitionChange:
    """Return the change after which `replicas` are all there are, and nothing moves.

    Where a replica goes it names the leader, so that a new leadership fences who holds the old
    list of replicas. Source: PartitionChangeBuilder.triggerLeaderEpochBumpForReplicaReassignment.
    """
    kept = frozenset(replicas)
    is_same = leader == partition.leader and kept.issuperset(partition.replicas)
    return PartitionChange(
        replicas=replicas,
        replica_uuids=tuple(partition.uuid_of(each) for each in replicas),
        directories=tuple(partition.directory_of(each) for each in replicas),
        isr=partition.isr & kept,
        elr=partition.elr & kept,
        leader=KEEP if is_same else leader,
        adding_replicas=(),
        removing_replicas=(),
        throttle_bytes_per_s=KEEP if partition.throttle_bytes_per_s is None else None,
    )


def cancel_reassignments(
    image: MetadataImage, keys: Iterable[PartitionKey], *, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide that partitions stay where they were, and the added replicas go. All or none.

    If one of those leads, it hands over to a replica that stays and is in sync. Source:
    PartitionReassignmentRevert.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition.
        NoReassignmentInProgressError: It is not being reassigned.
        InvalidReplicaAssignmentError: No replica that would stay is in sync.
    """
    eligible = image.eligible_brokers()
    records: list[Record] = []
    cancelled = []
    for key in keys:
        partition = registered_partition(image, key)
        if not partition.is_reassigning:
            raise NoReassignmentInProgressError(
                f"{image.name_of(key)} is not being reassigned: there is nothing to cancel"
            )
        change = _cancellation(partition, eligible, image.suspects)
        if change is None:
            raise InvalidReplicaAssignmentError(
                f"{image.name_of(key)} can't stay on {list(partition.original_replicas)}: nobody of"
                " these is in sync, and records would be lost; let the reassignment be done"
            )
        records.append(change_record(image, key, partition, change, cause))
        cancelled.append(key)
    return ControllerResult(records, cancelled)


def _cancellation(
    partition: PartitionRegistration,
    eligible: frozenset[BrokerId],
    suspects: frozenset[ReplicaUuid],
) -> PartitionChange | None:
    """Return the change back; None if no replica in sync would be left."""
    original = partition.original_replicas
    if not original or not partition.isr.intersection(original):
        return None
    leader = partition.leader
    if leader not in original:
        without = _within(partition, original)
        leader = elect_leader(
            without, eligible=eligible, election=Election.ONLINE, suspects=suspects
        )
    if leader is not None and leader not in partition.isr:
        leader = None  # from the ELR: the ISR has members that only must come back
    return _only(partition, original, leader=leader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A reassignment under way, as it is shown to people.

    Attributes:
        key: The partition.
        name: The same as people name it.
        target: Its replicas once it is done.
        adding: Replicas that come.
        removing: Replicas that go.
        waits_for: Replicas of the target that are not in sync yet.
        throttle_bytes_per_s: The rate of its copying; None: no limit.
    """

    key: PartitionKey
    name: TopicPartition
    target: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    waits_for: tuple[BrokerId, ...]
    throttle_bytes_per_s: int | None = None


def list_reassignments(image: MetadataImage) -> list[Reassignment]:
    return [
        Reassignment(
            key=key,
            name=image.name_of(key),
            target=partition.target_replicas,
            adding=partition.adding_replicas,
            removing=partition.removing_replicas,
            waits_for=tuple(
                each for each in partition.target_replicas if each not in partition.isr
            ),
            throttle_bytes_per_s=partition.throttle_bytes_per_s,
        )
        for key, partition in image.partitions_needing_work()
        if partition.is_reassigning
    ]


class ReassignmentStatus(Enum):
    """How a reassignment stands. Source: kafka-reassign-partitions --verify."""

    COMPLETE = "complete"
    IN_PROGRESS = "in progress"
    NOT_THERE = "the partition is not there"
    ELSEWHERE = "the replicas are others"


def status_of(partition: PartitionRegistration | None, target: Sequence[int]) -> ReassignmentStatus:
    """Return how a partition's move to `target` stands; None: the partition does not exist."""
    if partition is None:
        return ReassignmentStatus.NOT_THERE
    if partition.target_replicas != tuple(target):
        return ReassignmentStatus.ELSEWHERE
    if partition.is_reassigning:
        return ReassignmentStatus.IN_PROGRESS
    return ReassignmentStatus.COMPLETE


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
    if not isinstance(target, list | tuple) or not all(isinstance(each, int) for each in target):
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
