"""The history of partitions and brokers: changes with their causes, and leaders and ISRs over time.

Replays the metadata log; SQL over the metadata table (`tables`) gives the same.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from kafka_on_spark.base.errors import HistoryExpiredError
from kafka_on_spark.base.ids import (
    BrokerId,
    Keep,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionKey,
    TopicId,
    TopicPartition,
    time_of,
)
from kafka_on_spark.metadata.image import BrokerRegistration, MetadataImage
from kafka_on_spark.metadata.partition import NOT_COMPACTED, Compaction, PartitionRegistration
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    BrokerRecord,
    BrokerState,
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RemovePartitionRecord,
    RemoveTopicRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One change of a partition's registration or of its log start, and what holds from then on.

    Attributes:
        time: When it was committed, UTC.
        replicas: The brokers assigned; none once the partition is deleted.
        is_deletion: The log start alone changed: retention or delete-records deleted records.
        is_compaction: How far its logs are to be compacted alone changed.
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
        state: Its state from now on; None: it is unregistered.
        is_registration: A new broker, or another disk under its id.
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

    @property
    def why(self) -> str | None:
        """Its cause, of which most begin with the broker's name, without that."""
        return self.cause and self.cause.removeprefix(f"broker {self.broker_id}: ")


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
    for batch in batches:
        before, image = image, image.replay(batch)
        for index, record in enumerate(batch.records):
            deleted = _deleted_keys(record, before)
            for key in deleted or _changed_keys(record, before, image):
                at = before if deleted else image
                registration = at.partition(key)
                is_other = topic_id not in (None, key.topic_id) or partition not in (
                    None,
                    key.partition,
                )
                if registration is None or is_other:
                    continue
                entry = _entry_of(batch, index, at.name_of(key), registration)
                entries.append(
                    replace(entry, leader=None, isr=(), replicas=()) if deleted else entry
                )
    return entries


def broker_history(batches: Iterable[MetadataBatch]) -> list[BrokerEvent]:
    """Return what happened to brokers, oldest first; that one has another rack is no event."""
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
        if isinstance(record, BrokerRecord | UnregisterBrokerRecord)
        or (isinstance(record, BrokerChangeRecord) and record.rack is None)
    ]


def state_begins(
    brokers: Mapping[BrokerId, BrokerRegistration],
    pieces: Iterable[tuple[MetadataImage, Sequence[MetadataBatch]]],
) -> dict[BrokerId, BrokerEvent]:
    """Return what put each broker into the state that it has. `pieces`: the log, the newest first,
    of which no more is read than it takes. A broker whose decision is gone, as
    metadata.max.retention.ms says, is left out."""
    found: dict[BrokerId, BrokerEvent] = {}
    pending = set(brokers)
    with suppress(HistoryExpiredError):
        for _, batches in pieces if pending else ():
            for event in reversed(broker_history(batches)):
                if event.broker_id not in pending:
                    continue
                broker = brokers[event.broker_id]
                if event.state is broker.state:
                    found[event.broker_id] = event  # one before may say the same
                since_ms = broker.fenced_since_ms
                is_first = since_ms is not None and event.time == time_of(since_ms)
                if is_first or event.state is not broker.state:
                    pending.discard(event.broker_id)
            if not pending:
                break
    return found


def log_transitions(
    before: MetadataImage, batches: Sequence[MetadataBatch], after: MetadataImage
) -> None:
    """Log what people on call are to know of `batches`, which lead from one image to another:
    brokers that are fenced and unfenced, another controller, voters that come and go, and
    unclean elections. Only a controller after one that has resigned is no warning."""
    _log_controller(before, after)
    _log_voters(batches)
    states = {each.broker_id: each.state for each in before.brokers.values()}
    for batch in batches:
        changes = [each for each in batch.records if isinstance(each, PartitionChangeRecord)]
        for event in broker_history([batch]):
            was = states.pop(event.broker_id, None)
            if event.state is not None:
                states[event.broker_id] = event.state
            if was is not event.state and BrokerState.FENCED in (was, event.state):
                log.warning("%s", _fenced_or_not(event, before, changes))
        for change in changes:
            topic = after.topics.get(change.topic_id, before.topics.get(change.topic_id))
            if topic is not None and not isinstance(change.change.unclean_generation, Keep):
                log.warning("%s-%d: %s", topic.name, change.partition, change.cause)


def _log_voters(batches: Iterable[MetadataBatch]) -> None:
    for batch in batches:
        for record in batch.records:
            if isinstance(record, VotersRecord):
                log.warning("voter %s", record.cause)


def _log_controller(before: MetadataImage, after: MetadataImage) -> None:
    then, now = before.controller, after.controller
    if now is None or (then is not None and now.controller_epoch <= then.controller_epoch):
        return
    said = f"{now.controller_id or 'another process'} controls in epoch {now.controller_epoch}"
    if then is not None and then.controller_id is not None:
        lease_ms = after.settings().integer("controller.lease.ms")
        who = then.controller_id
        log.warning("%s: %s has not renewed its lease for %d ms", said, who, lease_ms)
    elif now.controller_id is not None:
        log.info("%s: nobody did", said)


def _fenced_or_not(
    event: BrokerEvent, before: MetadataImage, changes: Iterable[PartitionChangeRecord]
) -> str:
    name = "unfenced" if event.state is BrokerState.ACTIVE else event.name
    said = f"broker {event.broker_id} is {name}: {event.why}"
    known = (before.partition(each.key) for each in changes)
    count = sum(each is not None and each.leader == event.broker_id for each in known)
    return f"{said}; it led {count} partitions" if event.state is BrokerState.FENCED else said


def _deleted_keys(record: Record, before: MetadataImage) -> list[PartitionKey]:
    if isinstance(record, RemovePartitionRecord):
        return [record.key]
    if isinstance(record, RemoveTopicRecord) and record.topic_id in before.topics:
        numbers = sorted(before.topics[record.topic_id].partitions)
        return [PartitionKey(record.topic_id, number) for number in numbers]
    return []


def _changed_keys(
    record: Record, before: MetadataImage, after: MetadataImage
) -> list[PartitionKey]:
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        return [record.key]
    if not isinstance(record, HighWatermarkRecord) or record.log_start_offset is None:
        return []
    was, now = before.partition(record.key), after.partition(record.key)
    is_moved = was is not None and now is not None and now.log_start_offset != was.log_start_offset
    return [record.key] if is_moved else []


def _entry_of(
    batch: MetadataBatch, index: int, name: TopicPartition, registration: PartitionRegistration
) -> HistoryEntry:
    record = batch.records[index]
    return HistoryEntry(
        time=time_of(batch.stamp.time_ms),
        topic=name.topic,
        partition=name.partition,
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


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a replica's part did not change; `end` is the moment after it. A follower has
    no `leader_epoch`."""

    start: datetime
    end: datetime
    leader_epoch: LeaderEpoch | None = None
    is_in_sync: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """One partition: the spans of each of its replicas, and the times without a leader."""

    topic: str
    partition: int
    spans: dict[BrokerId, list[Span]] = field(default_factory=dict)
    leaderless: list[Span] = field(default_factory=list)


def lanes_of(entries: Iterable[HistoryEntry], end: datetime) -> list[Lane]:
    """Return the lanes that `entries`, oldest first, make until `end`."""
    by_partition: dict[tuple[str, int], list[HistoryEntry]] = {}
    for entry in entries:
        by_partition.setdefault((entry.topic, entry.partition), []).append(entry)
    lanes = []
    for name, own in sorted(by_partition.items()):
        brokers = sorted({broker_id for entry in own for broker_id in entry.replicas})
        lane = Lane(*name, {broker_id: [] for broker_id in brokers})
        for entry, until in zip(own, [*(each.time for each in own[1:]), end], strict=True):
            if entry.leader is None and entry.replicas:
                _extend(lane.leaderless, Span(entry.time, until))
            for broker_id in entry.replicas:
                epoch = entry.leader_epoch if entry.leader == broker_id else None
                span = Span(entry.time, until, epoch, broker_id in entry.isr)
                _extend(lane.spans[broker_id], span)
        lanes.append(lane)
    return lanes


def _extend(spans: list[Span], new: Span) -> None:
    """Add a span, joined with the one before if nothing changed."""
    if spans and replace(spans[-1], start=spans[-1].end, end=new.end) == new:
        spans[-1] = replace(spans[-1], end=new.end)
    else:
        spans.append(new)
