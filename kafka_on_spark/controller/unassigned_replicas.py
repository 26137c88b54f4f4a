"""Which replicas are assigned no more, so that their tables may be removed.

The rule rests on one invariant: a replica uuid is created with its assignment, and once it is
unassigned it is never assigned again (I18, I19). A replica that was lost and created again stays
assigned until its new incarnation is in sync: until then it stands in `former_uuids`. "Was
assigned, and is not any more" is therefore true for ever once it is true: a process that removes a
table late, on an old image or as a deposed controller, removes nothing that is in use. A uuid that
the log does not know is left alone: a later piece of the log may have it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_on_spark.base.ids import KEEP, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RemovePartitionRecord,
    RemoveTopicRecord,
)


class Incarnation(NamedTuple):
    """One incarnation of one replica: a replica that is created again has another uuid."""

    key: PartitionKey
    replica_uuid: ReplicaUuid


def is_assigned(image: MetadataImage, replica: Incarnation) -> bool:
    """Return whether the replica is assigned, or may yet be taken back."""
    partition = image.partition(replica.key)
    if partition is None:
        return False
    return replica.replica_uuid in (*partition.replica_uuids, *partition.former_uuids)


def unassigned_by(
    before: MetadataImage,
    batches: Iterable[MetadataBatch],
    only: frozenset[PartitionKey] | None = None,
) -> Iterator[tuple[Incarnation, int]]:
    """Yield the replicas that `batches` unassign, and when (ms since 1970 UTC).

    `before` is the image that the batches continue. A replica that they assign and
    unassign again is among them. `only`: of these partitions.
    """
    assigned = _Assigned(before)
    for batch in batches:
        for record in batch.records:
            for key, uuids in assigned.changes(record):
                if only is not None and key not in only:
                    continue
                for replica_uuid in sorted(assigned.uuids(key) - uuids.all):
                    yield Incarnation(key, replica_uuid), batch.stamp.time_ms
                assigned.change(key, uuids)


class _Uuids(NamedTuple):
    """The replicas of a partition: those of now, and those that may yet be taken back."""

    replicas: tuple[ReplicaUuid, ...]
    former: tuple[ReplicaUuid | None, ...]

    @property
    def all(self) -> frozenset[ReplicaUuid]:
        """The replicas whose tables stay."""
        return frozenset(self.replicas).union(each for each in self.former if each is not None)


_NONE: Final = _Uuids((), ())


class _Assigned:
    """Which replicas are assigned, after the records so far."""

    def __init__(self, before: MetadataImage) -> None:
        self._before = before
        self._known: dict[PartitionKey, _Uuids] = {}

    def uuids(self, key: PartitionKey) -> frozenset[ReplicaUuid]:
        """Return the replicas of a partition; none if it does not exist."""
        return self._of(key).all

    def _of(self, key: PartitionKey) -> "_Uuids":
        if key in self._known:
            return self._known[key]
        partition = self._before.partition(key)
        if partition is None:
            return _NONE
        return _Uuids(partition.replica_uuids, partition.former_uuids)

    def change(self, key: PartitionKey, uuids: "_Uuids") -> None:
        """Set a partition's replicas from now on."""
        self._known[key] = uuids

    def changes(self, record: Record) -> "list[tuple[PartitionKey, _Uuids]]":
        """Return the partitions whose replicas a record sets, and these; none: it is removed."""
        if isinstance(record, PartitionRecord):
            after = record.registration
            return [(record.key, _Uuids(after.replica_uuids, after.former_uuids))]
        if isinstance(record, PartitionChangeRecord):
            uuids, former = record.change.replica_uuids, record.change.former_uuids
            if uuids is KEEP and former is KEEP:
                return []
            before = self._of(record.key)
            changed = _Uuids(
                before.replicas if uuids is KEEP else uuids,
                before.former if former is KEEP else former,
            )
            return [(record.key, changed)]
        if isinstance(record, RemovePartitionRecord):
            return [(record.key, _NONE)]
        if isinstance(record, RemoveTopicRecord):
            return [(key, _NONE) for key in self._keys_of(record.topic_id)]
        return []

    def _keys_of(self, topic_id: TopicId) -> set[PartitionKey]:
        topic = self._before.topics.get(topic_id)
        numbers = () if topic is None else topic.partitions
        known = {PartitionKey(topic_id, number) for number in numbers}
        return known | {key for key in self._known if key.topic_id == topic_id}


def times_unassigned(
    pieces: Iterable[tuple[MetadataImage, Sequence[MetadataBatch]]], wanted: frozenset[Incarnation]
) -> dict[Incarnation, int]:
    """Return when (ms since 1970 UTC) each of `wanted` was unassigned, by the log's history.

    `pieces` are all of the history, newest first, each with the image that it continues. No more
    of them are read than needed, since an unassigned replica is never assigned again. A replica
    that was never assigned, or still is, is not in the answer.
    """
    times: dict[Incarnation, int] = {}
    for before, batches in pieces:
        left = wanted - times.keys()
        keys = frozenset(replica.key for replica in left)
        times |= {each: at for each, at in unassigned_by(before, batches, keys) if each in left}
        if len(times) == len(wanted):
            break
    return times
