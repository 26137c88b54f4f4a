"""A plan of moves: which replicas go where, how many bytes that is, and how long it takes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidReplicaAssignmentError
from kafka_on_spark.base.ids import BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.controller.balance import balance
from kafka_on_spark.controller.reassignment import check_throttle
from kafka_on_spark.controller.throttle import UNLIMITED
from kafka_on_spark.metadata.image import MetadataImage

COPY_BYTES_PER_S: Final = 100 * 2**20
"""The rate assumed where nothing limits copying: about a disk's or a network's share."""

_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


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
        """The argument for `Cluster.reassign`."""
        return {(each.name.topic, each.name.partition): list(each.target) for each in self.moves}

    @property
    def bytes_moved(self) -> int:
        """Bytes to copy in all."""
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
    limits = [settings.integer(each) for each in _RATES]
    if throttle_bytes_per_s is not None:
        limits.append(throttle_bytes_per_s)
    rate = min(limits)
    return (rate, True) if rate != UNLIMITED else (COPY_BYTES_PER_S, False)
