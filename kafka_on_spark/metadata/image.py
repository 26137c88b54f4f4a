"""The cluster's metadata as of one offset of the metadata log: every decision is made on it.

It is never changed, only replaced by `replay` of committed batches: decide, commit, replay.
`snapshot_records` is the inverse of replay: what it folds in must come out of replay as it was.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import (
    HistoryExpiredError,
    InvalidRequestError,
    InvalidTopicError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Offset,
    PartitionKey,
    ProducerEpoch,
    ReplicaUuid,
    TopicId,
    TopicPartition,
    check_text,
    check_whole_number,
    ensure,
    listed,
)
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.group import ConsumerGroup, rebuilding_records, replayed
from kafka_on_spark.metadata.partition import (
    GroupOffset,
    Keyed,
    PartitionMap,
    PartitionMapDraft,
    PartitionRegistration,
    construct_many,
)
from kafka_on_spark.metadata.records import (
    AdminRequestRecord,
    AdminResultRecord,
    BrokerChangeRecord,
    BrokerRecord,
    ClusterRecord,
    ConfigRecord,
    ControllerRecord,
    ExpiredRecord,
    GroupAssignmentRecord,
    GroupMemberRecord,
    GroupRecord,
    GroupTargetEpochRecord,
    GroupTargetRecord,
    HighWatermarkRecord,
    LeaderChangeRecord,
    MetadataBatch,
    OffsetCommitRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerRecord,
    Record,
    RemoveGroupMemberRecord,
    RemovePartitionRecord,
    RemoveProducerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)

_OF_ONE_RUN: Final = re.compile("producer-[0-9a-f]{32}")


def id_of_one_run(uuid: str) -> str:
    """Return the producer id of a run that nobody else takes over: it ends with its process."""
    return f"producer-{uuid}"


def may_come_back(producer_id: str) -> bool:
    """Return whether another run may use the id: a query, or somebody, has given it a meaning."""
    return _OF_ONE_RUN.fullmatch(producer_id) is None


def _producer(draft: Any, record: ProducerRecord) -> None:
    if record.producer_id in draft.seen("expired_producers"):
        del draft.map("expired_producers")[record.producer_id]
    draft.map("producers")[record.producer_id] = record.producer_epoch
    if record.first_sequence is not None:
        draft.map("first_sequences")[record.producer_id] = record.first_sequence
    heard_at_ms = _heard_at_ms(draft, record.renewed_at_ms)
    draft.map("producer_times")[record.producer_id] = heard_at_ms


def _remove_producer(draft: Any, record: RemoveProducerRecord) -> None:
    """An id has expired. One that comes back begins above every epoch that has, and nobody knows
    what stands of it, until somebody vouches: so it is remembered."""
    draft.map("producers").pop(record.producer_id, None)
    draft.map("producer_times").pop(record.producer_id, None)
    if record.producer_id in draft.seen("first_sequences"):
        del draft.map("first_sequences")[record.producer_id]
    if record.producer_id and may_come_back(record.producer_id):
        draft.map("expired_producers")[record.producer_id] = record.producer_epoch
    draft.expired_epoch = max(draft.expired_epoch, record.producer_epoch)


def _offset_commit(draft: Any, record: OffsetCommitRecord) -> None:
    place = (record.group, PartitionKey(record.topic_id, record.partition))
    if record.offset is None:
        draft.map("groups").pop(place, None)
    elif record.topic_id in draft.seen("topics"):
        draft.map("groups")[place] = GroupOffset(
            offset=record.offset,
            leader_epoch=record.leader_epoch,
            unclean_generation=record.unclean_generation or 0,
            saved_at_ms=_heard_at_ms(draft, record.renewed_at_ms),
        )


def _heard_at_ms(draft: Any, given_ms: int | None) -> int:
    """Return from when on a client is silent that a batch tells of: the batch's time, which is not
    by the clock of its process alone (`stamp_ms`). `given_ms`: as a snapshot says, or a reset of
    the time.
    """
    return draft.time_ms if given_ms is None else given_ms


def put_partition(draft: Any, record: PartitionRecord) -> None:
    partitions = draft.partitions(record.topic_id)
    if partitions is not None:
        partitions.put(record.partition, record.registration)


def change_partitions(draft: Any, run: Iterable[Any]) -> None:
    for topic_id, records in groupby(run, attrgetter("topic_id")):
        if (partitions := draft.partitions(topic_id)) is not None:
            partitions.merge([(each.partition, each.change) for each in records])


def remove_partition(draft: Any, record: RemovePartitionRecord) -> None:
    """A partition goes, and with it the positions that groups have saved in it."""
    partitions = draft.partitions(record.topic_id)
    if partitions is None or partitions.remove(record.partition) is None:
        return
    topics = draft.map("topics")
    topics[record.topic_id] = replace(topics[record.topic_id], first_partition_count=0)
    groups = draft.map("groups")
    for place in [each for each in groups if each[1] == record.key]:
        del groups[place]


def raise_high_watermark(draft: Any, record: HighWatermarkRecord) -> None:
    """An inspection says how far a partition is committed, and how long its log is."""
    partitions = draft.partitions(record.topic_id)
    partition = None if partitions is None else partitions.get(record.partition)
    if partitions is None or partition is None or not is_current(record, partition):
        return
    changed: dict[str, Any] = {"log_end_offset": record.log_end_offset}
    if record.high_watermark is not None and record.high_watermark > partition.high_watermark:
        changed["high_watermark"] = record.high_watermark
        changed["high_watermark_epoch"] = record.high_watermark_epoch
        changed["high_watermark_chain"] = record.high_watermark_chain
    if record.log_start_offset is not None:
        changed["log_start_offset"] = max(record.log_start_offset, partition.log_start_offset)
    partitions.put(record.partition, replace(partition, **changed))


def is_current(record: HighWatermarkRecord, partition: PartitionRegistration) -> bool:
    """Return whether nothing changed in `partition` since the record's author inspected it."""
    return (
        record.leader_epoch == partition.leader_epoch
        and record.partition_epoch == partition.partition_epoch
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic.

    Attributes:
        name: Its name.
        topic_id: Its id; a topic created again under the name has another.
        partitions: Registrations by partition number, from 0 without gaps.
        configs: Settings given for it, as text.
        first_partition_count: Partitions that it was created with; None: not recorded; 0: some
            were removed since, so that an append may stand in it that was split by any number.
    """

    name: str
    topic_id: TopicId
    partitions: PartitionMap = field(default_factory=PartitionMap)
    configs: Mapping[str, str] = field(default_factory=dict)
    first_partition_count: int | None = None

    def __post_init__(self) -> None:
        # A dict may have been given.
        object.__setattr__(self, "partitions", PartitionMap.of(self.partitions))

    @property
    def was_shrunk(self) -> bool:
        """Whether partitions of it were removed."""
        return self.first_partition_count == 0

    @property
    def is_expanded(self) -> bool:
        """Whether an append may stand in it that was split by another number of partitions."""
        first = self.first_partition_count
        return first is not None and len(self.partitions) > first


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLease:
    """The controller's lease. For liveness only: safety is the epoch.

    Attributes:
        controller_id: The process, or None after a resignation.
        controller_epoch: Controllerships so far.
        offset: Metadata offset of the last claim or renewal: if it moves, the holder is alive.
    """

    controller_id: str | None
    controller_epoch: ControllerEpoch
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """The cluster as of `offset`.

    Attributes:
        offset: End of the log that was replayed, exclusive; what a commit names.
        time_ms: The time of the newest batch. It may go back: a clock that was ahead has no say
            in what comes after.
        cluster_id: None before the ClusterRecord.
        generation: How often people went on without a majority of the metadata roots.
        registered_voters: All voters that the log has ever named, as `VotersRecord` has them.
        controller: The controller's lease, or None before the first.
        brokers: By id.
        past_brokers: The last broker epochs of unregistered ids.
        topics: By topic id.
        topic_ids: By name.
        configs: The cluster's settings, as text.
        producers: Epoch of the newest run, by producer id.
        producer_times: When each producer id was renewed last, ms since 1970 UTC.
        first_sequences: Of ids that came back after they had expired: of lower sequences nobody
            knows whether they stand, since logs have forgotten them.
        expired_producers: Epoch of the newest run of ids that have expired and may come back.
        expired_epoch: The highest epoch of producer ids that have expired; -1: none has.
        groups: Saved positions, by group and partition.
        consumer_groups: The groups that have members, by name.
        requests: Admin requests without a result, in order.
        suspects: Replicas that the process that decides has found bad once, and not inspected again
            yet: it elects and counts none of them. Not of the log.
    """

    offset: Offset = Offset(0)
    time_ms: int = 0
    cluster_id: str | None = None
    generation: int = 0
    registered_voters: tuple[str, ...] = ()
    controller: ControllerLease | None = None
    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=dict)
    past_brokers: Mapping[BrokerId, BrokerEpoch] = field(default_factory=dict)
    topics: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    topic_ids: Mapping[str, TopicId] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    producers: Mapping[str, ProducerEpoch] = field(default_factory=dict)
    producer_times: Mapping[str, int] = field(default_factory=dict, compare=False)
    first_sequences: Mapping[str, int] = field(default_factory=dict)
    expired_producers: Mapping[str, ProducerEpoch] = field(default_factory=dict)
    expired_epoch: int = -1
    groups: Mapping[tuple[str, PartitionKey], GroupOffset] = field(default_factory=dict)
    consumer_groups: Mapping[str, ConsumerGroup] = field(default_factory=dict)
    requests: tuple[AdminRequestRecord, ...] = ()
    suspects: frozenset[ReplicaUuid] = field(default=frozenset(), compare=False)

    def newest_ms(self) -> int:
        """Return the newest time in it: of the newest commit, or of what a client said last."""
        saved = (place.saved_at_ms for place in self.groups.values())
        return max(
            self.time_ms, max(self.producer_times.values(), default=0), max(saved, default=0)
        )

    def topic(self, name: str) -> TopicImage:
        """Return the topic of that name.

        Raises:
            UnknownTopicOrPartitionError, InvalidTopicError: There is none, or it is no name.
        """
        check_text(name, "a topic's name", InvalidTopicError)
        topic_id = self.topic_ids.get(name)
        if topic_id is None:
            known = ", ".join(sorted(self.topic_ids)[:10]) or "none"
            raise UnknownTopicOrPartitionError(
                f"there is no topic {name!r}: create it first (known: {known})"
            )
        return self.topics[topic_id]

    def partition(self, key: PartitionKey) -> PartitionRegistration | None:
        topic = self.topics.get(key.topic_id)
        return None if topic is None else topic.partitions.get(key.partition)

    def name_of(self, key: PartitionKey) -> TopicPartition:
        return TopicPartition(self.topics[key.topic_id].name, key.partition)

    def partitions(self) -> Iterable[tuple[PartitionKey, PartitionRegistration]]:
        for topic_id, topic in self.topics.items():
            for number, partition in topic.partitions.items():
                yield PartitionKey(topic_id, number), partition

    def partitions_on(self, broker_id: BrokerId) -> Iterable[Keyed]:
        for topic_id, topic in self.topics.items():
            for number, partition in topic.partitions.replicas_on(broker_id):
                yield PartitionKey(topic_id, number), partition

    def partitions_needing_work(self) -> Iterable[tuple[PartitionKey, PartitionRegistration]]:
        for topic_id, topic in self.topics.items():
            for number, partition in topic.partitions.needing_work():
                yield PartitionKey(topic_id, number), partition

    def is_eligible(self, broker_id: BrokerId) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_eligible

    def eligible_brokers(self) -> frozenset[BrokerId]:
        return frozenset(each for each, broker in self.brokers.items() if broker.is_eligible)

    @property
    def broker_roots(self) -> dict[BrokerId, str]:
        return {each.broker_id: each.root for each in self.brokers.values()}

    def settings(self, topic_id: TopicId | None = None) -> Settings:
        topic = None if topic_id is None else self.topics.get(topic_id)
        return Settings((self.configs,) if topic is None else (topic.configs, self.configs))

    def replay(self, *batches: MetadataBatch) -> "MetadataImage":
        """Return the image with `batches` applied, which must continue it; none is refused."""
        draft = _Draft(self)
        for batch in batches:
            ensure(batch.base_offset == draft.offset, (batch.base_offset, draft.offset))
            draft.time_ms = batch.stamp.time_ms
            draft.offset = batch.end_offset
            for kind, run in groupby(batch.records, type):
                if kind is PartitionChangeRecord:
                    change_partitions(draft, run)
                else:
                    for record in run:
                        _REPLAY[kind](draft, record)
        return draft.finish()


class _Draft:
    """An image being built: it copies each map once, at its first record."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._copies: dict[str, Any] = {}
        self._partitions: dict[TopicId, PartitionMapDraft] = {}
        self.offset = image.offset
        self.time_ms = image.time_ms
        self.controller = image.controller
        self.cluster_id = image.cluster_id
        self.generation = image.generation
        self.registered_voters = image.registered_voters
        self.requests = image.requests
        self.expired_epoch = image.expired_epoch

    def map(self, name: str) -> dict[Any, Any]:
        """Return a copy of the image's map `name` that may be changed."""
        copy: dict[Any, Any] | None = self._copies.get(name)
        if copy is None:
            copy = self._copies[name] = dict(getattr(self._image, name))
        return copy

    def seen(self, name: str) -> Mapping[Any, Any]:
        """Return the map `name` as it is by now, without a copy: to look, not to change."""
        copy = self._copies.get(name)
        found: Mapping[Any, Any] = getattr(self._image, name) if copy is None else copy
        return found

    def partitions(self, topic_id: TopicId) -> PartitionMapDraft | None:
        if topic_id not in self._partitions:
            topic = self.map("topics").get(topic_id)
            if topic is None:
                return None
            self._partitions[topic_id] = PartitionMapDraft(topic.partitions)
        return self._partitions[topic_id]

    def finish(self) -> MetadataImage:
        topics = self.map("topics") if self._partitions else {}
        for topic_id, partitions in self._partitions.items():
            if topic_id in topics:
                topics[topic_id] = replace(topics[topic_id], partitions=partitions.finish())
        return replace(
            self._image,
            offset=self.offset,
            time_ms=self.time_ms,
            controller=self.controller,
            cluster_id=self.cluster_id,
            generation=self.generation,
            registered_voters=self.registered_voters,
            requests=self.requests,
            expired_epoch=self.expired_epoch,
            **self._copies,
        )


def _cluster(draft: _Draft, record: ClusterRecord) -> None:
    draft.cluster_id = record.cluster_id
    if record.generation is not None:
        draft.generation = record.generation


def _voters(draft: _Draft, record: VotersRecord) -> None:
    draft.registered_voters = tuple(sorted({*draft.registered_voters, *record.voters}))


def _controller(draft: _Draft, record: ControllerRecord) -> None:
    draft.controller = ControllerLease(
        controller_id=None if record.is_resignation else record.controller_id,
        controller_epoch=record.controller_epoch,
        offset=draft.offset,
    )


def _broker(draft: _Draft, record: BrokerRecord) -> None:
    draft.map("brokers")[record.broker_id] = BrokerRegistration(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        root=record.root,
        rack=record.rack,
        directory_id=record.directory_id,
        state=record.broker_state,
        fenced_since_ms=record.fenced_since_ms,
        refused=record.refused,
    )
    draft.map("past_brokers").pop(record.broker_id, None)


def _unregister_broker(draft: _Draft, record: UnregisterBrokerRecord) -> None:
    draft.map("brokers").pop(record.broker_id, None)
    draft.map("past_brokers")[record.broker_id] = record.broker_epoch


def _broker_change(draft: _Draft, record: BrokerChangeRecord) -> None:
    brokers = draft.map("brokers")
    broker = brokers.get(record.broker_id)
    if broker is not None and broker.broker_epoch == record.broker_epoch:
        brokers[record.broker_id] = broker.put_in(
            record.broker_state, draft.time_ms, record.refused
        )


def _topic(draft: _Draft, record: TopicRecord) -> None:
    draft.map("topics")[record.topic_id] = TopicImage(
        name=record.topic,
        topic_id=record.topic_id,
        first_partition_count=record.first_partition_count,
    )
    draft.map("topic_ids")[record.topic] = record.topic_id


def _remove_topic(draft: _Draft, record: RemoveTopicRecord) -> None:
    topic = draft.map("topics").pop(record.topic_id, None)
    if topic is not None and draft.map("topic_ids").get(topic.name) == record.topic_id:
        del draft.map("topic_ids")[topic.name]
    groups = draft.map("groups")
    for place in [each for each in groups if each[1].topic_id == record.topic_id]:
        del groups[place]


def _config(draft: _Draft, record: ConfigRecord) -> None:
    if record.topic_id is None:
        configs = draft.map("configs")
    else:
        topics = draft.map("topics")
        if record.topic_id not in topics:
            return
        configs = dict(topics[record.topic_id].configs)
        topics[record.topic_id] = replace(topics[record.topic_id], configs=configs)
    if record.config_value is None:
        configs.pop(record.config_name, None)
    else:
        configs[record.config_name] = record.config_value


def _group(draft: _Draft, record: GroupRecord) -> None:
    after = replayed(draft.map("consumer_groups").get(record.group), record)
    if after is None:
        draft.map("consumer_groups").pop(record.group, None)
    else:
        draft.map("consumer_groups")[record.group] = after


def _admin_request(draft: _Draft, record: AdminRequestRecord) -> None:
    draft.requests = (*draft.requests, record)


def _admin_result(draft: _Draft, record: AdminResultRecord) -> None:
    draft.requests = tuple(each for each in draft.requests if each.request != record.request)


def _expired(draft: _Draft, record: ExpiredRecord) -> None:
    raise HistoryExpiredError("the history is gone, as metadata.max.retention.ms says")


_REPLAY: Final[Mapping[type, Callable[[_Draft, Any], None]]] = {
    ClusterRecord: _cluster,
    ExpiredRecord: _expired,
    LeaderChangeRecord: lambda draft, record: None,
    VotersRecord: _voters,
    ControllerRecord: _controller,
    BrokerRecord: _broker,
    BrokerChangeRecord: _broker_change,
    UnregisterBrokerRecord: _unregister_broker,
    TopicRecord: _topic,
    RemoveTopicRecord: _remove_topic,
    PartitionRecord: put_partition,
    RemovePartitionRecord: remove_partition,
    HighWatermarkRecord: raise_high_watermark,
    ConfigRecord: _config,
    ProducerRecord: _producer,
    RemoveProducerRecord: _remove_producer,
    OffsetCommitRecord: _offset_commit,
    GroupMemberRecord: _group,
    RemoveGroupMemberRecord: _group,
    GroupTargetRecord: _group,
    GroupTargetEpochRecord: _group,
    GroupAssignmentRecord: _group,
    AdminRequestRecord: _admin_request,
    AdminResultRecord: _admin_result,
}


def pair_of(name: object) -> TopicPartition:
    """Return the topic and the number by which a caller names a partition.

    Raises:
        InvalidRequestError: It is not a pair of a text and a whole number.
    """
    match name:
        case (str(topic), number) if not isinstance(number, bool) and hasattr(number, "__index__"):
            return TopicPartition(topic, number.__index__())
    raise InvalidRequestError(
        f"{name!r} names no partition: give topic and number, as in ('orders', 0)"
    )


def key_of(image: MetadataImage, name: object) -> PartitionKey:
    """Return the key of a partition that a caller has named by topic and number.

    Raises:
        InvalidRequestError: It is not a pair of a text and a whole number.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    return partition_key(image, *pair_of(name))


def keys_of(image: MetadataImage, names: object) -> list[PartitionKey]:
    """Return the keys of (topic, partition) pairs; a single pair need not be in a list.

    Raises:
        InvalidRequestError: It is neither a pair nor a list of pairs.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    if isinstance(names, tuple | list) and len(names) == 2 and isinstance(names[0], str):
        return [key_of(image, names)]
    allowed = "pairs of a topic and a partition, as in ('orders', 0)"
    return [key_of(image, name) for name in listed(names, "partitions", allowed)]


def names_of(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[TopicPartition]:
    return sorted(image.name_of(key) for key in keys if image.partition(key) is not None)


def partition_key(image: MetadataImage, topic: str, partition: int) -> PartitionKey:
    """Return the key of a partition whose topic and number were given apart.

    Raises:
        InvalidRequestError: The partition is not a number.
        UnknownTopicOrPartitionError: There is no such topic or partition.
    """
    topic_image = image.topic(topic)
    check_whole_number(partition, "a partition")
    if partition not in topic_image.partitions:
        raise UnknownTopicOrPartitionError(
            f"topic {topic!r} has no partition {partition}: it has 0 to"
            f" {len(topic_image.partitions) - 1}"
        )
    return PartitionKey(topic_image.topic_id, partition)


def snapshot_records(image: MetadataImage) -> list[Record]:
    """Return the records that rebuild `image` from nothing, high watermarks folded in.

    The controller's lease comes last: its offset shows only that the holder is alive.
    """
    records: list[Record] = []
    if image.cluster_id is not None:
        generation = image.generation or None
        records.append(ClusterRecord(cluster_id=image.cluster_id, generation=generation))
    if image.registered_voters:
        records.append(VotersRecord(voters=image.registered_voters))
    records.extend(
        BrokerRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            root=broker.root,
            rack=broker.rack,
            directory_id=broker.directory_id,
            broker_state=broker.state,
            fenced_since_ms=broker.fenced_since_ms,
            refused=broker.refused,
        )
        for broker in image.brokers.values()
    )
    records.extend(
        UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_epoch)
        for broker_id, broker_epoch in image.past_brokers.items()
    )
    records.extend(_config_records(None, image.configs))
    for topic in image.topics.values():
        records.append(
            TopicRecord(
                topic=topic.name,
                topic_id=topic.topic_id,
                first_partition_count=topic.first_partition_count,
            )
        )
        records.extend(_config_records(topic.topic_id, topic.configs))
        records.extend(
            construct_many(
                PartitionRecord,
                {
                    "topic": repeat(topic.name),
                    "topic_id": repeat(topic.topic_id),
                    "partition": topic.partitions,
                    "registration": topic.partitions.values(),
                    "cause": repeat(None),
                },
                len(topic.partitions),
            )
        )
    records.extend(
        ProducerRecord(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            first_sequence=image.first_sequences.get(producer_id),
            renewed_at_ms=image.producer_times.get(producer_id),
        )
        for producer_id, producer_epoch in image.producers.items()
    )
    records.extend(
        RemoveProducerRecord(producer_id=producer_id, producer_epoch=producer_epoch)
        for producer_id, producer_epoch in image.expired_producers.items()
    )
    if image.expired_epoch >= 0:
        epoch = ProducerEpoch(image.expired_epoch)
        records.append(RemoveProducerRecord(producer_id="", producer_epoch=epoch))
    records.extend(
        OffsetCommitRecord.again(group, key, place, renewed_at_ms=place.saved_at_ms)
        for (group, key), place in image.groups.items()
    )
    for name, group in image.consumer_groups.items():
        records.extend(rebuilding_records(name, group))
    records.extend(image.requests)
    if image.controller is not None:
        lease = image.controller
        records.append(
            ControllerRecord(
                controller_id=lease.controller_id or "",
                controller_epoch=lease.controller_epoch,
                is_resignation=lease.controller_id is None,
            )
        )
    return records


def _config_records(topic_id: TopicId | None, configs: Mapping[str, str]) -> Iterable[ConfigRecord]:
    for name, value in configs.items():
        yield ConfigRecord(topic_id=topic_id, config_name=name, config_value=value)
