"""Where a new partition's replicas go: striped over racks and brokers, leaders balanced.

Source: Kafka's StripedReplicaPlacer. The caller supplies the random numbers, so that the placement
is a function of its arguments.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafka_on_spark.base.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
)
from kafka_on_spark.base.ids import BrokerId, check_mapping, check_whole_number, listed
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.image import MetadataImage

T = TypeVar("T")

RandomBelow = Callable[[int], int]
"""Returns a whole number in [0, bound)."""


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


def place_partitions(
    brokers: Iterable[BrokerRegistration],
    *,
    partition_count: int,
    replication_factor: int,
    random_below: RandomBelow,
) -> list[tuple[BrokerId, ...]]:
    """Return the replicas of each of `partition_count` new partitions.

    Raises:
        InvalidReplicationFactorError: Below 1, above the number of brokers, or no broker is
            active.
    """
    stripes = Stripes(brokers, random_below)
    return [stripes.place(replication_factor) for _ in range(partition_count)]


class BrokerRing:
    """Brokers given out one after the other; each epoch begins one broker further."""

    def __init__(self, brokers: Sequence[BrokerId], random_below: RandomBelow) -> None:
        self._brokers = list(brokers)
        self._random_below = random_below
        self._epoch = 0
        self._index = 0
        self._offset = random_below(len(brokers)) if brokers else 0

    def next(self, epoch: int) -> BrokerId | None:
        """Return the next broker of `epoch`, or None if all were given out."""
        if not self._brokers:
            return None
        if self._epoch != epoch:
            self._epoch, self._index = epoch, 0
            self._offset = (self._offset + 1) % len(self._brokers)
        if self._index >= len(self._brokers):
            return None
        broker = self._brokers[(self._index + self._offset) % len(self._brokers)]
        self._index += 1
        return broker

    def shuffle(self) -> None:
        """Put the brokers in another order."""
        _shuffle(self._brokers, self._random_below)


class _Rack:
    """A rack's brokers; the fenced ones are used last."""

    def __init__(self, brokers: Sequence[BrokerRegistration], random_below: RandomBelow) -> None:
        self._fenced = BrokerRing(
            [each.broker_id for each in brokers if not each.is_eligible], random_below
        )
        self._unfenced = BrokerRing(
            [each.broker_id for each in brokers if each.is_eligible], random_below
        )

    def next_unfenced(self, epoch: int) -> BrokerId | None:
        """Return the next active broker."""
        return self._unfenced.next(epoch)

    def next(self, epoch: int) -> BrokerId | None:
        """Return the next broker, an active one as long as there is one."""
        unfenced = self._unfenced.next(epoch)
        return self._fenced.next(epoch) if unfenced is None else unfenced

    def shuffle(self) -> None:
        """Put the brokers in another order."""
        self._fenced.shuffle()
        self._unfenced.shuffle()


class Stripes:
    """All racks of a cluster; each partition that is placed begins at the next one.

    Brokers that are fenced or draining are used where active ones do not suffice.
    """

    def __init__(self, brokers: Iterable[BrokerRegistration], random_below: RandomBelow) -> None:
        everyone = sorted(brokers, key=lambda each: each.broker_id)
        by_rack: dict[str, list[BrokerRegistration]] = {}
        for broker in everyone:
            by_rack.setdefault(broker.rack or "", []).append(broker)
        self._names = sorted(by_rack)
        self._racks = {name: _Rack(by_rack[name], random_below) for name in self._names}
        self.broker_count = len(everyone)
        self.unfenced_count = sum(each.is_eligible for each in everyone)
        self._random_below = random_below
        self._epoch = 0
        self._offset = random_below(len(self._names)) if self._names else 0

    def place(self, replication_factor: int) -> tuple[BrokerId, ...]:
        """Return the replicas of the next partition; the first is on an active broker.

        Raises:
            InvalidReplicationFactorError: As in `place_partitions`.
        """
        self._check(replication_factor)
        # With one active broker the epoch must rise: in one epoch it is given out once.
        if self._epoch == self.unfenced_count and self.unfenced_count > 1:
            self._shuffle()
            self._epoch = 0
        if self._offset == len(self._names):
            self._offset = 0
        first_rack, leader = self._leader()
        replicas = [leader, *self._followers(first_rack, replication_factor - 1)]
        self._epoch += 1
        self._offset += 1
        return tuple(replicas)

    def _check(self, replication_factor: int) -> None:
        if replication_factor < 1:
            raise InvalidReplicationFactorError(
                f"replication factor {replication_factor} is not allowed: it must be at least 1"
            )
        if replication_factor > self.broker_count:
            raise InvalidReplicationFactorError(
                f"replication factor {replication_factor} is larger than the number of brokers,"
                f" {self.broker_count}: register more brokers or ask for fewer replicas"
            )
        if not self.unfenced_count:
            raise InvalidReplicationFactorError(
                "all brokers are fenced or shutting down: bring one back first"
            )

    def _leader(self) -> tuple[int, BrokerId]:
        for step in range(len(self._names)):
            place = (self._offset + step) % len(self._names)
            broker = self._racks[self._names[place]].next_unfenced(self._epoch)
            if broker is not None:
                return place, broker
        raise AssertionError("an active broker exists in some rack")

    def _followers(self, first_rack: int, count: int) -> list[BrokerId]:
        followers: list[BrokerId] = []
        place, skip = self._offset, first_rack
        while len(followers) < count:
            broker = None
            if place == skip:
                skip = -1  # the leader's rack is passed over once, then used like the others
            else:
                broker = self._racks[self._names[place]].next(self._epoch)
            place = (place + 1) % len(self._names)
            if broker is not None:
                followers.append(broker)
        return followers

    def _shuffle(self) -> None:
        _shuffle(self._names, self._random_below)
        for rack in self._racks.values():  # in the order of their names, not the new one
            rack.shuffle()


def _shuffle(values: list[T], random_below: RandomBelow) -> None:
    """Fisher-Yates from the end, as java.util.Collections.shuffle draws."""
    for place in range(len(values) - 1, 0, -1):
        other = random_below(place + 1)
        values[place], values[other] = values[other], values[place]
