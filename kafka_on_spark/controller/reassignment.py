"""Moving partitions' replicas: a balanced plan, the start, the steps, cancel, list, verify.

Each step is one commit, and the registration alone says which step is next: another controller
continues where one died between two steps. The steps are the older controller's phases (A: start,
B3: leader, B4: ISR, end: replicas); which replicas come and go is decided as in KRaft, by
PartitionReassignmentReplicas and PartitionReassignmentRevert.

The balanced plan moves as few bytes as possible. A replica on an allowed broker stays, except if a
rack has more of a partition than its share. A missing replica goes to the broker that has least.
Then replicas move, the smallest first, from brokers with more to brokers with fewer, until no two
differ by more than one. Leaderships follow by another order of the same replicas, which moves no
bytes.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from kafka_on_spark.base.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    NoReassignmentInProgressError,
    ReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import KEEP, BrokerId, PartitionKey, ReplicaUuid, TopicPartition
from kafka_on_spark.controller.election import change_record, elect_leader
from kafka_on_spark.controller.topics import NewUuid, checked_replicas
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import Record

THROTTLES: Final = ("leader.replication.throttled", "follower.replication.throttled")

UNLIMITED: Final = 2**63 - 1
"""Kafka's default of both rates."""

COPY_BYTES_PER_S: Final = 100 * 2**20
"""The rate assumed where nothing limits copying: about a disk's or a network's share."""


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
        leader = elect_leader(_within(partition, target), eligible, suspects)
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
        leader = elect_leader(_within(partition, original), eligible, suspects)
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
    """Check the rate of a move; None: it has no limit."""
    is_number = isinstance(bytes_per_s, int) and not isinstance(bytes_per_s, bool)
    if bytes_per_s is not None and not (is_number and bytes_per_s >= 1):
        raise InvalidRequestError(
            f"a reassignment can't be throttled to {bytes_per_s!r} bytes a second: give a whole"
            " number of at least 1, or none for no limit"
        )


def check_target(
    image: MetadataImage, key: PartitionKey, target: Sequence[int]
) -> tuple[BrokerId, ...]:
    current = registered_partition(image, key).replicas
    name = image.name_of(key)
    brokers = checked_replicas(image, name, target)
    idle = [each for each in brokers if each not in current and not image.is_eligible(each)]
    if idle:
        states = ", ".join(f"{each} is {image.brokers[each].state.value}" for each in idle)
        raise InvalidReplicaAssignmentError(
            f"{name} can't move to brokers that take no replicas now, {states}: bring them back"
            " first, or name others"
        )
    return brokers


def registered_partition(image: MetadataImage, key: PartitionKey) -> PartitionRegistration:
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError(
            f"there is no partition {key.partition} of topic {key.topic_id}: name one that is there"
        )
    return partition


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """What changes for one partition.

    Attributes:
        bytes_moved: Bytes that the added replicas copy.
    """

    name: TopicPartition
    replicas: tuple[BrokerId, ...]
    target: tuple[BrokerId, ...]
    bytes_moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentPlan:
    """A balanced assignment, and the moves to it. It decides nothing.

    Attributes:
        current: The replicas of all partitions of the plan, as they are.
        proposed: The same as they would be.
        moves: The partitions that change.
        bytes_per_s: The rate that the time is estimated by.
        is_rate_known: The rate is that of a throttle or a setting; else it is an assumption.
        unmeasured: Partitions of unknown size; counted as empty.
    """

    current: Mapping[TopicPartition, tuple[BrokerId, ...]]
    proposed: Mapping[TopicPartition, tuple[BrokerId, ...]]
    moves: tuple[PlannedMove, ...]
    bytes_per_s: int
    is_rate_known: bool
    unmeasured: tuple[TopicPartition, ...] = ()

    @property
    def targets(self) -> dict[tuple[str, int], list[int]]:
        return {(each.name.topic, each.name.partition): list(each.target) for each in self.moves}

    @property
    def bytes_moved(self) -> int:
        return sum(each.bytes_moved for each in self.moves)

    @property
    def estimated_seconds(self) -> float:
        """About how long copying takes if nothing is appended meanwhile."""
        return self.bytes_moved / self.bytes_per_s

    def as_dict(self) -> dict[str, Any]:
        """Return the proposal as kafka-reassign-partitions writes and reads it."""
        return assignment_as_dict(self.proposed)


def assignment_as_dict(assignment: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """Return replicas by partition as kafka-reassign-partitions writes them."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "replicas": list(replicas),
                "log_dirs": ["any"] * len(replicas),
            }
            for name, replicas in sorted(assignment.items())
        ],
    }


def partitions_of(image: MetadataImage, topics: Iterable[str] | None) -> list[PartitionKey]:
    """Return the partitions of topics (None: of all), by name."""
    names = sorted(image.topic_ids) if topics is None else list(dict.fromkeys(topics))
    return [
        PartitionKey(topic.topic_id, number)
        for topic in map(image.topic, names)
        for number in sorted(topic.partitions)
    ]


def plan_reassignment(
    image: MetadataImage,
    keys: Iterable[PartitionKey],
    *,
    brokers: Iterable[int] | None,
    sizes: Mapping[PartitionKey, int | None],
    throttle_bytes_per_s: int | None = None,
) -> ReassignmentPlan:
    """Plan balanced replicas and leaders for partitions on `brokers` (None: on all active ones).

    `sizes`: bytes of one replica; None if unknown. A partition that is moving already counts with
    its target, and is left alone.
    """
    check_throttle(throttle_bytes_per_s)
    allowed = _allowed(image, brokers)
    current = {}
    fixed = set()
    for key in keys:
        partition = image.topics[key.topic_id].partitions[key.partition]
        current[key] = partition.target_replicas
        if partition.is_reassigning:
            fixed.add(key)
    known = {key: size or 0 for key, size in sizes.items()}
    racks = {each: image.brokers[each].rack for each in allowed}
    proposed = balance(current, racks, known, fixed=frozenset(fixed))
    limits = [image.settings().integer(f"{each}.rate") for each in THROTTLES]
    rate = min([*limits, UNLIMITED if throttle_bytes_per_s is None else throttle_bytes_per_s])
    return ReassignmentPlan(
        current={image.name_of(key): replicas for key, replicas in current.items()},
        proposed={image.name_of(key): replicas for key, replicas in proposed.items()},
        moves=tuple(
            PlannedMove(
                name=image.name_of(key),
                replicas=current[key],
                target=target,
                bytes_moved=known.get(key, 0) * len(set(target) - set(current[key])),
            )
            for key, target in proposed.items()
            if target != current[key]
        ),
        bytes_per_s=COPY_BYTES_PER_S if rate == UNLIMITED else rate,
        is_rate_known=rate != UNLIMITED,
        unmeasured=tuple(image.name_of(key) for key in current if sizes.get(key) is None),
    )


def _allowed(image: MetadataImage, brokers: Iterable[int] | None) -> list[BrokerId]:
    eligible = image.eligible_brokers()
    allowed = sorted(eligible) if brokers is None else sorted({BrokerId(each) for each in brokers})
    idle = [each for each in allowed if each not in eligible]
    if idle or not allowed:
        raise InvalidReplicaAssignmentError(
            f"replicas can't be planned on brokers {idle or allowed}: name active ones, some of"
            f" {sorted(eligible)}"
        )
    return allowed


Assignment = Mapping[PartitionKey, tuple[BrokerId, ...]]

Racks = Mapping[BrokerId, str | None]

IMBALANCE_MIN: Final = 2
"""Brokers whose counts differ by less are in balance."""


def balance(
    current: Assignment,
    racks: Racks,
    sizes: Mapping[PartitionKey, int],
    *,
    fixed: frozenset[PartitionKey] = frozenset(),
) -> dict[PartitionKey, tuple[BrokerId, ...]]:
    """Return the replicas of every partition of `current` on the brokers of `racks`.

    Racks count only if every broker has one, as in Kafka. `sizes` are bytes of one replica. `fixed`
    partitions stay as they are, and are counted.
    """
    board = _Board(racks, sizes)
    for key, replicas in current.items():
        if key not in fixed and len(replicas) > len(racks):
            raise InvalidReplicationFactorError(
                f"{len(replicas)} replicas of a partition have no room on {len(racks)} brokers:"
                " name more brokers"
            )
        board.place(key, replicas, is_fixed=key in fixed)
    movable = [key for key in current if key not in fixed]
    for key in movable:
        board.keep_allowed(key)
    for key in sorted(movable, key=lambda each: (-sizes.get(each, 0), each)):
        board.add_missing(key, len(current[key]))
    board.level()
    orders = {}
    for key in movable:
        # A replica that stays keeps its place, new ones fill the rest.
        target = board.replicas[key]
        coming = iter(sorted(target.difference(current[key])))
        orders[key] = tuple(each if each in target else next(coming) for each in current[key])
    _Leaderships(orders, Counter(current[key][0] for key in fixed), racks).level()
    return {key: orders.get(key, current[key]) for key in current}


class _Board:
    """Replicas by partition and by broker while a plan moves them."""

    def __init__(self, racks: Racks, sizes: Mapping[PartitionKey, int]) -> None:
        is_aware = all(rack is not None for rack in racks.values())
        self._racks = {each: str(rack) if is_aware else str(each) for each, rack in racks.items()}
        self._rack_sizes = Counter(self._racks.values())
        self._sizes = sizes
        self._held: dict[BrokerId, set[PartitionKey]] = {each: set() for each in racks}
        self._fixed_counts: Counter[BrokerId] = Counter()
        self.replicas: dict[PartitionKey, set[BrokerId]] = {}

    def place(self, key: PartitionKey, replicas: Iterable[BrokerId], *, is_fixed: bool) -> None:
        if is_fixed:
            self._fixed_counts.update(replicas)
            return
        self.replicas[key] = set(replicas)
        for each in replicas:
            if each in self._held:
                self._held[each].add(key)

    def _count(self, broker_id: BrokerId) -> int:
        return len(self._held[broker_id]) + self._fixed_counts[broker_id]

    def _share(self, replica_count: int) -> tuple[int, int]:
        """Return how many replicas of a partition a rack has at most, and how many racks have that.

        The share is as even as the racks' sizes allow.
        """
        most, room_below = 1, 0
        while (room := sum(min(size, most) for size in self._rack_sizes.values())) < replica_count:
            most, room_below = most + 1, room
        return most, replica_count - room_below

    def _in_racks(self, key: PartitionKey) -> Counter[str]:
        return Counter(self._racks[each] for each in self.replicas[key])

    def keep_allowed(self, key: PartitionKey) -> None:
        """Take away replicas that are on brokers not allowed, or too many in a rack."""
        most, full_racks = self._share(len(self.replicas[key]))
        self.replicas[key].intersection_update(self._held)
        in_racks = self._in_racks(key)
        for broker_id in sorted(self.replicas[key], key=lambda each: (-self._count(each), each)):
            rack = self._racks[broker_id]
            is_full = in_racks[rack] == most
            if in_racks[rack] > most or (
                is_full and list(in_racks.values()).count(most) > full_racks
            ):
                self._remove(key, broker_id)
                in_racks[rack] -= 1

    def _remove(self, key: PartitionKey, broker_id: BrokerId) -> None:
        self.replicas[key].discard(broker_id)
        self._held[broker_id].discard(key)

    def _give(self, key: PartitionKey, broker_id: BrokerId) -> None:
        self.replicas[key].add(broker_id)
        self._held[broker_id].add(key)

    def add_missing(self, key: PartitionKey, replica_count: int) -> None:
        """Give a partition the replicas that it lacks, each on the broker that has least."""
        while len(self.replicas[key]) < replica_count:
            in_racks = self._in_racks(key)
            free = (each for each in self._held if each not in self.replicas[key])
            self._give(
                key,
                min(free, key=lambda each: (in_racks[self._racks[each]], self._count(each), each)),
            )

    def level(self) -> None:
        """Move replicas from brokers with more to brokers with fewer until none can move."""
        has_moved = True
        while has_moved:
            has_moved = False
            for source in sorted(self._held, key=lambda each: (-self._count(each), each)):
                has_moved |= self._move_surplus(source)

    def _move_surplus(self, source: BrokerId) -> bool:
        """Move surplus replicas off one broker, the smallest first; return whether one moved."""
        has_moved = False
        lowest = min(map(self._count, self._held))
        if self._count(source) - lowest < IMBALANCE_MIN:
            return False
        for key in sorted(self._held[source], key=lambda each: (self._sizes.get(each, 0), each)):
            takers = [each for each in self._held if self._may_move(key, source, each)]
            if takers:
                taker = min(takers, key=lambda each: (self._count(each), each))
                self._remove(key, source)
                self._give(key, taker)
                has_moved = True
            if self._count(source) - min(map(self._count, self._held)) < IMBALANCE_MIN:
                break
        return has_moved

    def _may_move(self, key: PartitionKey, source: BrokerId, taker: BrokerId) -> bool:
        if taker in self.replicas[key]:
            return False
        if self._count(source) - self._count(taker) < IMBALANCE_MIN:
            return False
        rack, left = self._racks[taker], self._racks[source]
        if rack == left:
            return True
        in_racks = self._in_racks(key)
        most, full_racks = self._share(len(self.replicas[key]))
        if in_racks[rack] + 1 < most or (in_racks[rack] + 1 == most == in_racks[left]):
            return True
        return in_racks[rack] + 1 == most and list(in_racks.values()).count(most) < full_racks


class _Leaderships:
    """Which partitions each broker is first in, and which brokers could take one over."""

    def __init__(
        self,
        orders: dict[PartitionKey, tuple[BrokerId, ...]],
        fixed_counts: Mapping[BrokerId, int],
        brokers: Iterable[BrokerId],
    ) -> None:
        self._orders = orders
        self._counts = Counter({each: fixed_counts.get(each, 0) for each in sorted(brokers)})
        self._edges: dict[BrokerId, dict[BrokerId, set[PartitionKey]]] = {
            each: {} for each in self._counts
        }
        for key in orders:
            self._enter(key)

    def _enter(self, key: PartitionKey) -> None:
        first, *others = self._orders[key]
        self._counts[first] += 1
        for each in others:
            self._edges[first].setdefault(each, set()).add(key)

    def _hand_over(self, key: PartitionKey, taker: BrokerId) -> None:
        first, *others = self._orders[key]
        self._counts[first] -= 1
        for each in others:
            self._edges[first][each].remove(key)
        changed = list(self._orders[key])
        place = changed.index(taker)
        changed[0], changed[place] = taker, first
        self._orders[key] = tuple(changed)
        self._enter(key)

    def level(self) -> None:
        """Hand leaderships over until no two brokers that could take from each other differ.

        A broker that is first too often gives one to a broker that is not, directly or through
        others that each give one on: by the shortest such chain.
        """
        has_moved = True
        while has_moved:
            has_moved = False
            for source in sorted(self._counts, key=lambda each: (-self._counts[each], each)):
                chain = self._chain(source)
                for giver, taker in chain:
                    self._hand_over(min(self._edges[giver][taker]), taker)
                has_moved |= bool(chain)

    def _chain(self, source: BrokerId) -> list[tuple[BrokerId, BrokerId]]:
        """Return the chain of givers and takers, its end first; none if no broker gains by it."""
        came_from = self._reachable(source)
        # In order of distance, so among brokers with equally few the nearest.
        taker = min(came_from, key=lambda each: self._counts[each], default=source)
        if self._counts[source] - self._counts[taker] < IMBALANCE_MIN:
            return []
        chain = []
        while taker != source:
            chain.append((came_from[taker], taker))
            taker = came_from[taker]
        return chain

    def _reachable(self, source: BrokerId) -> dict[BrokerId, BrokerId]:
        """Return which brokers could get a leadership of `source`, each with its giver."""
        lowest = min(self._counts.values())
        came_from: dict[BrokerId, BrokerId] = {}
        waiting = deque([source])
        while waiting:
            giver = waiting.popleft()
            for taker, keys in self._edges[giver].items():
                if keys and taker != source and taker not in came_from:
                    came_from[taker] = giver
                    if self._counts[taker] == lowest:
                        return came_from
                    waiting.append(taker)
        return came_from
