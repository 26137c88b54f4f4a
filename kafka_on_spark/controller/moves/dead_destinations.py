"""Moves to brokers that stay away: another broker takes the place, or the move ends.

The time a broker has been away counts from the commit that fenced it, whose time is in the metadata
log, so it goes on when another controller takes over. A wrong clock makes this early or late and
never unsafe: a replica that is in sync, or may still lead, is not given up.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kafka_on_spark.controller.moves.reassignment import cancellation
from kafka_on_spark.controller.partitions.min_isr import min_isr_setting
from kafka_on_spark.controller.partitions.partition_change import change_record
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.controller.topics.topics import NewUuid
from kafka_on_spark.ids import KEEP, BrokerId, PartitionKey, ReplicaUuid
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import Record

LIMIT: Final = "replica.lag.time.max.ms"


def replan_stalled_moves(
    image: MetadataImage, *, now_ms: int, new_uuid: NewUuid
) -> ControllerResult[list[PartitionKey]]:
    """Decide about moves to brokers that are fenced for longer than replicas may lag.

    An eligible broker without a replica of the partition takes each such broker's place: in the
    rack that has fewest of its target, then with fewest replicas in all. If there is none, the
    partition goes back to where it was; if too few replicas there are in sync, the move waits.
    `now_ms` is ms since 1970 UTC. Answer: the partitions whose move changed or ended.
    """
    away_ms = _away_ms(image, now_ms)
    if not away_ms:
        return ControllerResult([], [])
    places: _Places | None = None
    records: list[Record] = []
    replanned = []
    for key, partition in image.partitions_needing_work():
        dead = sorted(away_ms.keys() & set(partition.adding_replicas))
        if not dead:
            continue
        if places is None:  # counts all replicas, so only if a place is needed
            places = _Places(image)
        chosen = _replacements(partition, dead, places)
        if chosen is None:
            change = _back(image, key, partition)
            outcome = "failed"
        else:
            change = _replanned(partition, chosen, new_uuid)
            taken = ", ".join(f"broker {new} takes the place of {old}" for old, new in chosen)
            outcome = f"goes on to {_joined_ids(partition.merge(change).target_replicas)}: {taken}"
        if change is None:
            continue
        cause = f"reassignment to {_joined_ids(partition.target_replicas)} {outcome}; " + ", ".join(
            f"broker {each} has been away for {away_ms[each] / 1000:.1f} s" for each in dead
        )
        cause += f" ({LIMIT}={image.settings().integer(LIMIT)})"
        records.append(change_record(image, key, partition, change, cause))
        replanned.append(key)
    return ControllerResult(records, replanned)


def _joined_ids(replicas: Iterable[BrokerId]) -> str:
    return " ".join(map(str, replicas))


def _away_ms(image: MetadataImage, now_ms: int) -> dict[BrokerId, int]:
    """Return the brokers that have been fenced for longer than replicas may lag, and their ms."""
    limit_ms = image.settings().integer(LIMIT)
    return {
        broker_id: now_ms - broker.fenced_since_ms
        for broker_id, broker in image.brokers.items()
        if broker.fenced_since_ms is not None and now_ms - broker.fenced_since_ms >= limit_ms
    }


class _Places:
    """Where a replica may go: eligible brokers, with what is assigned to each."""

    def __init__(self, image: MetadataImage) -> None:
        self._eligible = image.eligible_brokers()
        racks = {each: broker.rack for each, broker in image.brokers.items()}
        # Racks count only if every broker has one, as in a plan (balance.py).
        is_aware = all(rack is not None for rack in racks.values())
        self._racks = {each: str(rack) if is_aware else "" for each, rack in racks.items()}
        self._counts: Counter[BrokerId] = Counter()
        for _, partition in image.partitions():
            self._counts.update(partition.replicas)

    def best(self, taken: Iterable[BrokerId], beside: Iterable[BrokerId]) -> BrokerId | None:
        """Return the best broker that is not `taken`, for a replica `beside` others."""
        crowds = Counter(self._racks[each] for each in beside)
        free = self._eligible.difference(taken)
        return min(
            free,
            key=lambda each: (crowds[self._racks[each]], self._counts[each], each),
            default=None,
        )

    def take(self, broker_id: BrokerId) -> None:
        """Count a replica that goes to a broker by this decision."""
        self._counts[broker_id] += 1


def _replacements(
    partition: PartitionRegistration, dead: list[BrokerId], places: _Places
) -> list[tuple[BrokerId, BrokerId]] | None:
    """Return which broker replaces which; None if one has no replacement, or is still needed."""
    if (partition.isr | partition.elr).intersection(dead):
        return None
    taken = set(partition.replicas)
    stays = set(partition.target_replicas).difference(dead)
    chosen: list[tuple[BrokerId, BrokerId]] = []
    for each in dead:
        new = places.best(taken, stays)
        if new is None:
            return None
        taken.add(new)
        stays.add(new)
        chosen.append((each, new))
    for _, new in chosen:
        places.take(new)
    return chosen


def _replanned(
    partition: PartitionRegistration,
    chosen: list[tuple[BrokerId, BrokerId]],
    new_uuid: NewUuid,
) -> PartitionChange:
    """Return the change that puts others in the places of the dead; the removed ones stay the same.

    It names the leader, so that a new leadership fences holders of the old list of replicas.
    """
    new_of = dict(chosen)
    return PartitionChange(
        replicas=tuple(new_of.get(each, each) for each in partition.replicas),
        replica_uuids=tuple(
            ReplicaUuid(new_uuid()) if each in new_of else partition.uuid_of(each)
            for each in partition.replicas
        ),
        directories=tuple(
            None if each in new_of else partition.directory_of(each) for each in partition.replicas
        ),
        adding_replicas=tuple(sorted(new_of.get(each, each) for each in partition.adding_replicas)),
        leader=partition.leader,
    )


def _back(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration
) -> PartitionChange | None:
    """Return the change back to the old replicas; None if too few of them are in sync.

    It leaves as many in sync as the minimum asks for, or as there are now.
    """
    change = cancellation(partition, image.eligible_brokers())
    if change is None:
        return None
    assert change.isr is not KEEP
    minimum = min_isr_setting(image, key.topic_id)
    enough = min(minimum, len(partition.original_replicas), len(partition.isr))
    return change if len(change.isr) >= enough else None
