"""Which replicas are nobody's any more, so that their tables may be removed.

The rule rests on one invariant: a replica uuid is minted with its assignment, and once it was
taken away it is never assigned again (I18, I19). One that was lost and made anew is not taken away
before its new making is in sync: until then it stands in `former_uuids` (DESIGN §8). "Was assigned,
and is not any more" is therefore true for ever once it is true: who removes a table late, on an old
image or as a deposed controller, removes nothing that anybody has. A uuid that the log has never
heard of is left alone: it may be of a later piece of the log than the one that was read.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_on_spark.ids import KEEP, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RemovePartitionRecord,
    RemoveTopicRecord,
)


class Making(NamedTuple):
    """One making of one replica."""

    key: PartitionKey
    replica_uuid: ReplicaUuid


def is_assigned(image: MetadataImage, making: Making) -> bool:
    """Return whether the replica is anybody's."""
    partition = image.partition(making.key)
    if partition is None:
        return False
    return making.replica_uuid in (*partition.replica_uuids, *partition.former_uuids)


def taken_away(
    before: MetadataImage,
    batches: Iterable[MetadataBatch],
    only: frozenset[PartitionKey] | None = None,
) -> Iterator[tuple[Making, int]]:
    """Yield the replicas that `batches` take away, and when (ms since 1970 UTC).

    `before` is the image that the batches continue. What they assign themselves and take away
    again is told as well. `only`: of these partitions.
    """
    assigned = _Assigned(before)
    for batch in batches:
        for record in batch.records:
            for key, uuids in assigned.changes(record):
                if only is not None and key not in only:
                    continue
                for replica_uuid in sorted(assigned.uuids(key) - uuids.all):
                    yield Making(key, replica_uuid), batch.stamp.time_ms
                assigned.change(key, uuids)


class _Uuids(NamedTuple):
    """The replicas of a partition: those of now, and those that may yet be taken back."""

    replicas: tuple[ReplicaUuid, ...]
    former: tuple[ReplicaUuid | None, ...]

    @property
    def all(self) -> frozenset[ReplicaUuid]:
        """Return whose tables stay."""
        return frozenset(self.replicas).union(each for each in self.former if each is not None)


_NOBODY: Final = _Uuids((), ())


class _Assigned:
    """Who is assigned while records are gone through."""

    def __init__(self, before: MetadataImage) -> None:
        self._before = before
        self._known: dict[PartitionKey, _Uuids] = {}

    def uuids(self, key: PartitionKey) -> frozenset[ReplicaUuid]:
        """Return the replicas of a partition; none if it is not there."""
        return self._of(key).all

    def _of(self, key: PartitionKey) -> "_Uuids":
        if key in self._known:
            return self._known[key]
        partition = self._before.partition(key)
        if partition is None:
            return _NOBODY
        return _Uuids(partition.replica_uuids, partition.former_uuids)

    def change(self, key: PartitionKey, uuids: "_Uuids") -> None:
        """Take note of a partition's replicas from now on."""
        self._known[key] = uuids

    def changes(self, record: Record) -> "list[tuple[PartitionKey, _Uuids]]":
        """Return the partitions whose replicas a record names, with these; gone: with none."""
        if isinstance(record, PartitionRecord):
            made = record.registration
            return [(record.key, _Uuids(made.replica_uuids, made.former_uuids))]
        if isinstance(record, PartitionChangeRecord):
            uuids, former = record.change.replica_uuids, record.change.former_uuids
            if uuids is KEEP and former is KEEP:
                return []
            before = self._of(record.key)
            after = _Uuids(
                before.replicas if uuids is KEEP else uuids,
                before.former if former is KEEP else former,
            )
            return [(record.key, after)]
        if isinstance(record, RemovePartitionRecord):
            return [(record.key, _NOBODY)]
        if isinstance(record, RemoveTopicRecord):
            return [(key, _NOBODY) for key in self._keys_of(record.topic_id)]
        return []

    def _keys_of(self, topic_id: TopicId) -> set[PartitionKey]:
        topic = self._before.topics.get(topic_id)
        numbers = () if topic is None else topic.partitions
        known = {PartitionKey(topic_id, number) for number in numbers}
        return known | {key for key in self._known if key.topic_id == topic_id}


def times_taken_away(
    pieces: Iterable[tuple[MetadataImage, Sequence[MetadataBatch]]], wanted: frozenset[Making]
) -> dict[Making, int]:
    """Return when (ms since 1970 UTC) each of `wanted` was taken away, by the log's history.

    `pieces` are all that there is of it, newest first, each with the image that it continues; no
    more of them are asked for than it takes: what was taken away once is never assigned again.
    What was never assigned, or still is, is not in the answer.
    """
    times: dict[Making, int] = {}
    for before, batches in pieces:
        left = wanted - times.keys()
        keys = frozenset(making.key for making in left)
        times |= {each: at for each, at in taken_away(before, batches, keys) if each in left}
        if len(times) == len(wanted):
            break
    return times
