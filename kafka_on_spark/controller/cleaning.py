"""Which replicas are nobody's any more, so that their tables may be removed.

The rule rests on one invariant: a replica uuid is minted with its assignment, and once it was
taken away it is never assigned again (I18, I19). "Was assigned, and is not any more" is therefore
true for ever once it is true: who removes a table late, on an old image or as a deposed controller,
removes nothing that anybody has. A uuid that the log has never heard of is left alone: it may be of
a later piece of the log than the one that was read.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka_on_spark.ids import KEEP, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
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
    return partition is not None and making.replica_uuid in partition.replica_uuids


def taken_away(before: MetadataImage, after: MetadataImage) -> Iterator[Making]:
    """Yield the replicas that were assigned in `before` and are not in `after`."""
    for topic_id, topic in before.topics.items():
        later = after.topics.get(topic_id)
        if later is not topic:
            yield from _taken_from(topic_id, topic, later)


def _taken_from(
    topic_id: TopicId, before: TopicImage, after: TopicImage | None
) -> Iterator[Making]:
    for number, partition in before.partitions.items():
        later = None if after is None else after.partitions.get(number)
        if later is not None and later.replica_uuids == partition.replica_uuids:
            continue
        kept = () if later is None else later.replica_uuids
        for replica_uuid in partition.replica_uuids:
            if replica_uuid not in kept:
                yield Making(PartitionKey(topic_id, number), replica_uuid)


def times_taken_away(
    batches: Iterable[MetadataBatch], wanted: frozenset[Making]
) -> dict[Making, int]:
    """Return when (ms since 1970 UTC) each of `wanted` was taken away, by the log's history.

    What was never assigned, or still is, is not in the answer.
    """
    assigned: dict[PartitionKey, frozenset[Making]] = {}
    times: dict[Making, int] = {}
    by_key: dict[PartitionKey, set[Making]] = {}
    for making in wanted:
        by_key.setdefault(making.key, set()).add(making)
    for batch in batches:
        for record in batch.records:
            for key, uuids in _assignments(record, assigned):
                before = assigned.pop(key, frozenset())
                now = frozenset(each for each in by_key.get(key, ()) if each.replica_uuid in uuids)
                times |= dict.fromkeys(before - now, batch.stamp.time_ms)
                if now:
                    assigned[key] = now
                for each in now:
                    times.pop(each, None)
    return times


def _assignments(
    record: Record, assigned: Mapping[PartitionKey, object]
) -> list[tuple[PartitionKey, tuple[ReplicaUuid, ...]]]:
    """Return the partitions whose replicas a record names, with these; gone: with none."""
    if isinstance(record, PartitionRecord):
        return [(record.key, record.registration.replica_uuids)]
    if isinstance(record, PartitionChangeRecord):
        uuids = record.change.replica_uuids
        return [] if uuids is KEEP else [(record.key, uuids)]
    if isinstance(record, RemovePartitionRecord):
        return [(record.key, ())]
    if isinstance(record, RemoveTopicRecord):
        return [(key, ()) for key in assigned if key.topic_id == record.topic_id]
    return []
