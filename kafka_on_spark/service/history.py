"""The life of a partition: leaders, ISRs, epochs and causes, in time.

Replays the metadata log; what it returns is what SQL over the metadata table gives.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_on_spark.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import MetadataBatch, PartitionChangeRecord, PartitionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One change of a partition's registration, and what it led to.

    Attributes:
        time: When it was committed, UTC.
        topic: The topic's name.
        partition: Its number.
        leader: Who leads from now on, or None.
        leader_epoch: Leaderships so far.
        partition_epoch: Changes so far.
        isr: Who is in sync from now on.
        replicas: Who is assigned from now on.
        high_watermark: How far the partition was committed then.
        cause: Why, in words.
        metadata_offset: Where the record stands in the metadata log.
    """

    time: datetime
    topic: str
    partition: int
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    high_watermark: Offset
    cause: str | None
    metadata_offset: Offset


def partition_history(
    batches: Iterable[MetadataBatch], topic_id: TopicId, partition: int | None = None
) -> list[HistoryEntry]:
    """Return the changes of one partition, or of all of a topic, oldest first."""
    image = MetadataImage()
    entries = []
    for batch in batches:
        image = image.replay(batch)
        for place, record in enumerate(batch.records):
            if not isinstance(record, PartitionRecord | PartitionChangeRecord):
                continue
            if record.topic_id != topic_id or partition not in (None, record.partition):
                continue
            registration = image.partition(record.key)
            if registration is None:
                continue
            entries.append(_entry(batch, place, record, image, registration))
    return entries


def _entry(
    batch: MetadataBatch,
    place: int,
    record: PartitionRecord | PartitionChangeRecord,
    image: MetadataImage,
    registration: PartitionRegistration,
) -> HistoryEntry:
    return HistoryEntry(
        time=datetime.fromtimestamp(batch.stamp.time_ms / 1000, UTC),
        topic=image.name_of(PartitionKey(record.topic_id, record.partition)).topic,
        partition=record.partition,
        leader=registration.leader,
        leader_epoch=registration.leader_epoch,
        partition_epoch=registration.partition_epoch,
        isr=tuple(sorted(registration.isr)),
        replicas=registration.replicas,
        high_watermark=registration.high_watermark,
        cause=record.cause,
        metadata_offset=Offset(batch.base_offset + place),
    )
