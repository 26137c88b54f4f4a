"""A plan of moves: which replicas go where, how many bytes that is, and how long it takes.

The balanced assignment moves as few bytes as possible. A replica on an allowed broker stays, except
if a rack has more of a partition than its share. A missing replica goes to the broker that has
least. Then replicas move, the smallest first, from brokers with more to brokers with fewer, until
no two differ by more than one. Leaderships follow by another order of the same replicas, which
moves no bytes.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidReplicaAssignmentError, InvalidReplicationFactorError
from kafka_on_spark.base.ids import BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.controller.reassignment import check_throttle
from kafka_on_spark.controller.throttle import THROTTLES, UNLIMITED
from kafka_on_spark.metadata.image import MetadataImage

COPY_BYTES_PER_S: Final = 100 * 2**20
"""The rate assumed where nothing limits copying: about a disk's or a network's share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    """What changes for one partition.

    Attributes:
        name: The partition.
        replicas: As they are, in order of preference.
        target: As they would be.
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

    def current_as_dict(self) -> dict[str, Any]:
        """Return the present assignment in the same form, to go back to it."""
        return assignment_as_dict(self.current)


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
    """Return the partitions of topics (None: of all), by name.

    Raises:
        UnknownTopicOrPartitionError: A topic does not exist.
    """
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

    Raises:
        InvalidReplicaAssignmentError: A broker is unknown or takes no replicas.
        InvalidReplicationFactorError: A partition has more replicas than there are brokers.
        InvalidRequestError: The throttle is less than a byte a second.
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
    rate, is_known = _rate(image, throttle_bytes_per_s)
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
        bytes_per_s=rate,
        is_rate_known=is_known,
        unmeasured=tuple(image.name_of(key) for key in current if sizes.get(key) is None),
    )


def _allowed(image: MetadataImage, brokers: Iterable[int] | None) -> list[BrokerId]:
    """Return the brokers to use.

    Raises:
        InvalidReplicaAssignmentError: One is unknown or not active, or there is none.
    """
    eligible = image.eligible_brokers()
    allowed = sorted(eligible) if brokers is None else sorted({BrokerId(each) for each in brokers})
    idle = [each for each in allowed if each not in eligible]
    if idle or not allowed:
        raise InvalidReplicaAssignmentError(
            f"replicas can't be planned on brokers {idle or allowed}: name active ones, some of"
            f" {sorted(eligible)}"
        )
    return allowed


def _rate(image: MetadataImage, throttle_bytes_per_s: int | None) -> tuple[int, bool]:
    """Return the bytes a second to estimate with, and whether a throttle or setting says so."""
    settings = image.settings()
    limits = [settings.integer(f"{each}.rate") for each in THROTTLES]
    if throttle_bytes_per_s is not None:
        limits.append(throttle_bytes_per_s)
    rate = min(limits)
    return (rate, True) if rate != UNLIMITED else (COPY_BYTES_PER_S, False)


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

    Raises:
        InvalidReplicationFactorError: A partition has more replicas than there are brokers.
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
    orders = {key: _in_place(current[key], board.replicas[key]) for key in movable}
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
        """Put a partition where it stands now."""
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


def _in_place(current: Sequence[BrokerId], target: set[BrokerId]) -> tuple[BrokerId, ...]:
    """Return `target` in order: a replica that stays keeps its place, new ones fill the rest."""
    coming = iter(sorted(target.difference(current)))
    return tuple(each if each in target else next(coming) for each in current)


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
        self._orders[key] = _with_first(taker, self._orders[key])
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


def _with_first(leader: BrokerId, replicas: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """Return the replicas with `leader` and the first one in each other's place."""
    place = replicas.index(leader)
    changed = list(replicas)
    changed[0], changed[place] = leader, replicas[0]
    return tuple(changed)
