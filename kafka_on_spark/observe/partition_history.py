"""The history of partitions (leaders, ISRs, epochs, log starts, compaction, causes) and of brokers.

Replays the metadata log; SQL over the metadata table gives the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from kafka_on_spark.base.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionKey,
    TopicId,
)
from kafka_on_spark.base.moments import time_of
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import NOT_COMPACTED, Compaction, PartitionRegistration
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    BrokerRecord,
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RemovePartitionRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One change of a partition's registration or of its log start, and what it led to.

    Attributes:
        time: When it was committed, UTC.
        topic: The topic's name.
        partition: Its number.
        leader: The leader from now on, or None.
        leader_epoch: Leaderships so far.
        partition_epoch: Changes so far.
        isr: The replicas in sync from now on.
        replicas: The brokers assigned from now on; none once the partition is deleted.
        high_watermark: The high watermark that the metadata had then.
        log_start_offset: The first offset that is kept from now on.
        is_deletion: The log start alone changed: retention or delete-records deleted records.
        compaction: How far its logs are to be compacted from now on.
        is_compaction: This alone changed.
        cause: The reason, in words.
        metadata_offset: Offset of the record in the metadata log.
        by: Who committed it: the controller's id, or Spark's application id; None: another process.
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
    log_start_offset: Offset = Offset(0)
    is_deletion: bool = False
    compaction: Compaction = NOT_COMPACTED
    is_compaction: bool = False
    by: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """A broker was registered, fenced, drained, came back, or left.

    Attributes:
        time: When it was committed, UTC.
        broker_id: The broker.
        state: Its state from now on; None: it is unregistered.
        cause: The reason, in words.
        is_registration: A new broker, or another disk under its id.
        metadata_offset: Offset of the record in the metadata log.
    """

    time: datetime
    broker_id: BrokerId
    state: BrokerState | None
    cause: str | None
    is_registration: bool = False
    metadata_offset: Offset = Offset(0)

    @property
    def name(self) -> str:
        """What happened, in a word."""
        if self.state is None:
            return "unregistered"
        if self.is_registration:
            return "registered"
        return "back" if self.state is BrokerState.ACTIVE else self.state.value


def partition_history(
    batches: Iterable[MetadataBatch],
    topic_id: TopicId | None = None,
    partition: int | None = None,
    *,
    after: MetadataImage | None = None,
) -> list[HistoryEntry]:
    """Return the changes of one partition, of a topic, or of all that ever existed, oldest first.

    A partition that is deleted, with its topic or alone, has a last entry without replicas.
    `after`: the image that `batches` continue; None: they begin the log.
    """
    image = after or MetadataImage()
    entries = []

    def note(batch: MetadataBatch, index: int, key: PartitionKey, at: MetadataImage) -> None:
        registration = at.partition(key)
        is_asked_for = topic_id in (None, key.topic_id) and partition in (None, key.partition)
        if registration is None or not is_asked_for:
            return
        entry = _entry_of(batch, index, at.name_of(key).topic, key.partition, registration)
        if isinstance(batch.records[index], RemovePartitionRecord | RemoveTopicRecord):
            entry = replace(entry, leader=None, isr=(), replicas=())
        entries.append(entry)

    for batch in batches:
        before, image = image, image.replay(batch)
        for index, record in enumerate(batch.records):
            for key in _deleted_keys(record, before):
                note(batch, index, key, before)
            changed = _changed_key(record, before, image)
            if changed is not None:
                note(batch, index, changed, image)
    return entries


def broker_history(batches: Iterable[MetadataBatch]) -> list[BrokerEvent]:
    """Return what happened to brokers, oldest first."""
    return [
        BrokerEvent(
            time=time_of(batch.stamp.time_ms),
            broker_id=record.broker_id,
            state=None if isinstance(record, UnregisterBrokerRecord) else record.broker_state,
            cause=record.cause,
            is_registration=isinstance(record, BrokerRecord),
            metadata_offset=Offset(batch.base_offset + index),
        )
        for batch in batches
        for index, record in enumerate(batch.records)
        if isinstance(record, BrokerRecord | BrokerChangeRecord | UnregisterBrokerRecord)
    ]


def _deleted_keys(record: Record, before: MetadataImage) -> Iterable[PartitionKey]:
    """Yield the partitions that `record` deletes."""
    if isinstance(record, RemovePartitionRecord):
        yield record.key
    elif isinstance(record, RemoveTopicRecord):
        topic = before.topics.get(record.topic_id)
        for number in sorted(topic.partitions if topic is not None else ()):
            yield PartitionKey(record.topic_id, number)


def _changed_key(
    record: Record, before: MetadataImage, after: MetadataImage
) -> PartitionKey | None:
    """Return the partition whose registration or log start `record` changes."""
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        return record.key
    if not isinstance(record, HighWatermarkRecord) or record.log_start_offset is None:
        return None
    was, now = before.partition(record.key), after.partition(record.key)
    if was is None or now is None or now.log_start_offset == was.log_start_offset:
        return None
    return record.key


def _entry_of(
    batch: MetadataBatch,
    index: int,
    topic: str,
    partition: int,
    registration: PartitionRegistration,
) -> HistoryEntry:
    record = batch.records[index]
    return HistoryEntry(
        time=time_of(batch.stamp.time_ms),
        topic=topic,
        partition=partition,
        leader=registration.leader,
        leader_epoch=registration.leader_epoch,
        partition_epoch=registration.partition_epoch,
        isr=tuple(sorted(registration.isr)),
        replicas=registration.replicas,
        high_watermark=registration.high_watermark,
        log_start_offset=registration.log_start_offset,
        is_deletion=isinstance(record, HighWatermarkRecord),
        compaction=registration.compaction,
        is_compaction=isinstance(record, PartitionChangeRecord) and record.change.is_compaction,
        cause=record.cause,
        metadata_offset=Offset(batch.base_offset + index),
        by=batch.stamp.controller_id or batch.stamp.application_id,
    )
