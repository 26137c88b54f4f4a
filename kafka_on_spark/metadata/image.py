"""The cluster's metadata as of one offset of the metadata log, and decisions, which are made on it.

It is never changed, only replaced by `replay` of committed batches: decide, commit, replay.
`snapshot_records` is the inverse of replay: what it folds in must come out of replay as it was.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import (
    HistoryExpiredError,
    InvalidRequestError,
    InvalidTopicError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import (
    AWAY,
    NO_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    DirectoryId,
    GroupEpoch,
    MemberId,
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
from kafka_on_spark.metadata import records as log
from kafka_on_spark.metadata.partition import (
    GroupOffset,
    Keyed,
    PartitionMap,
    PartitionMapDraft,
    PartitionRegistration,
    construct_many,
)
from kafka_on_spark.metadata.records import (
    NO_CLIENT,
    AdminRequestRecord,
    BrokerState,
    MemberClient,
    MetadataBatch,
    Record,
)

T = TypeVar("T")

_OF_ONE_RUN: Final = re.compile("producer-[0-9a-f]{32}")


def id_of_one_run(uuid: str) -> str:
    """Return the producer id of a run that nobody else takes over: it ends with its process."""
    return f"producer-{uuid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker, a storage root without a process.

    Attributes:
        broker_epoch: Registrations of this id so far; another disk is another registration.
        directory_id: Identity of the disk, as ``meta.properties`` on the root says.
        fenced_since_ms: Time (ms since 1970 UTC) of the commit that fenced it, as the metadata log
            says it, so every process counts from the same one; None unless it is fenced.
        refused: What its root takes no more, as long as nobody has seen otherwise: what it is
            fenced for, or what the active controller is to look at.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    root: str
    rack: str | None
    directory_id: DirectoryId
    state: BrokerState
    fenced_since_ms: int | None = None
    refused: log.RefusedWrite | None = None

    @property
    def is_eligible(self) -> bool:
        """Whether its replicas may lead: registered, unfenced, not shutting down."""
        return self.state is BrokerState.ACTIVE

    @property
    def is_online(self) -> bool:
        return self.state is not BrokerState.FENCED

    @property
    def has_upkeep(self) -> bool:
        """Whether its replicas are trimmed and cleaned: also those on a root that is full, which
        gets room by it."""
        return self.is_online or (self.refused is not None and self.refused.size_bytes > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic; one that is created again under the name has another id.

    Attributes:
        partitions: Registrations by partition number, from 0 without gaps.
        first_partition_count: Partitions that it was created with; None: not recorded; 0: some
            were removed since, so that an append may stand in it that was split by any number.
        settings: What `MetadataImage.settings` has returned last, for all images that have these
            configs.
    """

    name: str
    topic_id: TopicId
    partitions: PartitionMap = field(default_factory=PartitionMap)
    configs: Mapping[str, str] = field(default_factory=dict)
    first_partition_count: int | None = None
    settings: Settings | None = field(default=None, repr=False, compare=False)

    @property
    def was_shrunk(self) -> bool:
        return self.first_partition_count == 0

    @property
    def was_resized(self) -> bool:
        """Whether an append may stand in it that was split by another number of partitions."""
        first = self.first_partition_count
        return first is not None and len(self.partitions) > first


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member of a group.

    Attributes:
        member_id: One life of a consumer: one that joins again gets another.
        instance_id: Of a static member, which keeps its partitions while it restarts.
            Source: group.instance.id.
        subscribed_topics: Names, in order; a topic need not exist.
        assignor: The one that it asks for; None: any.
        member_epoch: The target epoch that it has followed in giving up partitions; 0: none; AWAY:
            a static member that will return.
        target: Partitions that it is to own.
        owned: Partitions that it alone hands out.
        client: For people; nothing is decided by it.
    """

    member_id: MemberId
    instance_id: str | None = None
    subscribed_topics: tuple[str, ...] = ()
    assignor: str | None = None
    member_epoch: GroupEpoch = NO_EPOCH
    target: frozenset[PartitionKey] = frozenset()
    owned: frozenset[PartitionKey] = frozenset()
    client: MemberClient = NO_CLIENT

    @property
    def is_away(self) -> bool:
        return self.member_epoch == AWAY

    @property
    def to_give_up(self) -> frozenset[PartitionKey]:
        return self.owned - self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A group that has members (KIP-848).

    Attributes:
        group_epoch: Changes of its members and of the partitions that they share (count, from 1).
        target_epoch: The group epoch that the targets were decided for; 0: none were.
        last_partitions: The last partition of each topic that was shared out then.
        members: By id; at least one.
    """

    group_epoch: GroupEpoch
    target_epoch: GroupEpoch = NO_EPOCH
    last_partitions: frozenset[PartitionKey] = frozenset()
    members: Mapping[MemberId, GroupMember] = field(default_factory=dict)

    def with_instance(self, instance_id: str | None) -> GroupMember | None:
        static = (each for each in self.members.values() if each.instance_id is not None)
        return next((each for each in static if each.instance_id == instance_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerLease:
    """The controller's lease. For liveness only: safety is the epoch, controllerships so far.

    Attributes:
        controller_id: The process, or None after a resignation.
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
        generation: How often people went on without a majority of the metadata roots.
        registered_voters: All voters that the log has ever named, as `VotersRecord` has them.
        past_brokers: The last broker epochs of unregistered ids.
        producers: Epoch of the newest run, by producer id.
        producer_times: When each producer id was renewed last, ms since 1970 UTC.
        first_sequences: Of ids that came back after they had expired: of lower sequences nobody
            knows whether they stand, since logs have forgotten them.
        expired_producers: Epoch of the newest run of ids that have expired and may come back.
        expired_epoch: The highest epoch of producer ids that have expired; -1: none has.
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
    group_offsets: Mapping[tuple[str, PartitionKey], GroupOffset] = field(default_factory=dict)
    consumer_groups: Mapping[str, ConsumerGroup] = field(default_factory=dict)
    requests: tuple[AdminRequestRecord, ...] = ()
    suspects: frozenset[ReplicaUuid] = field(default=frozenset(), compare=False)

    @classmethod
    def of_snapshot(cls, snapshot: MetadataBatch | None) -> "MetadataImage":
        return cls() if snapshot is None else cls(offset=snapshot.base_offset).replay(snapshot)

    def newest_ms(self) -> int:
        """Return the newest time in it: of the newest commit, or of what a client said last."""
        saved = (place.saved_at_ms for place in self.group_offsets.values())
        return max(
            self.time_ms, max(self.producer_times.values(), default=0), max(saved, default=0)
        )

    def topic(self, name: str) -> TopicImage:
        """Return the topic of that name.

        Raises:
            UnknownTopicOrPartitionError: There is none.
            InvalidTopicError: It is not a name.
        """
        try:
            return self.topics[self.topic_ids[name]]
        except (KeyError, TypeError):
            check_text(name, "a topic's name", InvalidTopicError)
            known = ", ".join(sorted(self.topic_ids)[:10]) or "none"
            raise UnknownTopicOrPartitionError(
                f"there is no topic {name!r}: create it first (known: {known})"
            ) from None

    def lacking_replicas(self, keys: Iterable[PartitionKey]) -> list[PartitionKey]:
        lacking = []
        for key in keys:
            partition = self.partition(key)
            if partition is not None and None in partition.directories:
                lacking.append(key)
        return lacking

    def partition(self, key: PartitionKey) -> PartitionRegistration | None:
        topic = self.topics.get(key.topic_id)
        return None if topic is None else topic.partitions.get(key.partition)

    def name_of(self, key: PartitionKey) -> TopicPartition:
        return TopicPartition(self.topics[key.topic_id].name, key.partition)

    def partitions(self) -> Iterable[tuple[PartitionKey, PartitionRegistration]]:
        for topic_id, topic in self.topics.items():
            for number, partition in topic.partitions.items():
                yield PartitionKey(topic_id, number), partition

    def partitions_on(self, *broker_ids: BrokerId, field: str = "replicas") -> Iterable[Keyed]:
        """Yield the partitions that have any of the brokers in a field, `isr` or `replicas`; once
        they have left, none is visited."""
        for topic_id, topic in self.topics.items():
            for number, partition in topic.partitions.where(field, frozenset(broker_ids)):
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
        if topic is None:
            return Settings((self.configs,))
        known = topic.settings
        if (
            known is None
            or known.layers[0] is not topic.configs
            or known.layers[1] is not self.configs
        ):
            known = Settings((topic.configs, self.configs))
            object.__setattr__(topic, "settings", known)
        return known

    def replay(self, *batches: MetadataBatch) -> "MetadataImage":
        """Return the image with `batches` applied, which must continue it; none is refused."""
        draft = _Draft(self)
        for batch in batches:
            ensure(batch.base_offset == draft.offset, (batch.base_offset, draft.offset))
            draft.time_ms = batch.stamp.time_ms
            draft.offset = batch.end_offset
            for kind, run in groupby(batch.records, type):
                if kind in (log.PartitionRecord, log.PartitionChangeRecord):
                    _set_partitions(draft, kind, run)
                else:
                    for record in run:
                        _REPLAY[kind](draft, record)
        return draft.finish()


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[T]):
    """A decision that has not happened yet: records to commit, and the answer to give then. No
    records: nothing to do, answer at once."""

    records: Sequence[Record]
    response: T


Decide = Callable[[MetadataImage], ControllerResult[T]]
"""Decides by an image. It may be asked several times, each time by a newer one."""


class MetadataDecider(Protocol):
    """Has decisions take effect: by commits to the log, or in a dry run on its own image alone."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_far(self) -> bool:
        """Whether the log lies on a store, each of whose answers takes long."""
        ...

    def catch_up(self) -> MetadataImage: ...

    def has_next(self) -> bool:
        """Return whether there may be newer commits, as far as one request tells."""
        ...

    def submit(
        self,
        decide: Decide[T],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        """Have what `decide` says of the newest image take effect; return its response."""
        ...


def submit_if_due(known: MetadataImage, decide: Decide[T], submit: Callable[[Decide[T]], T]) -> T:
    """Submit a decision, unless it leads to nothing by the image that is known: to submit one takes
    the commit lock and reads the log again."""
    result = decide(known)
    return submit(decide) if result.records else result.response


class _Draft:
    """An image being built. It reads as its image; `map` copies a map once, at its first change."""

    offset: Offset
    time_ms: int
    cluster_id: str | None
    generation: int
    registered_voters: tuple[str, ...]
    controller: ControllerLease | None
    requests: tuple[AdminRequestRecord, ...]
    expired_epoch: int

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._partitions: dict[TopicId, PartitionMapDraft] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._image, name)

    def map(self, name: str) -> dict[Any, Any]:
        copy: dict[Any, Any] | None = vars(self).get(name)
        if copy is None:
            copy = vars(self)[name] = dict(getattr(self._image, name))
        return copy

    def partitions(self, topic_id: TopicId) -> PartitionMapDraft | None:
        if topic_id not in self._partitions:
            topic = self.topics.get(topic_id)
            if topic is None:
                return None
            self._partitions[topic_id] = PartitionMapDraft(topic.partitions)
        return self._partitions[topic_id]

    def finish(self) -> MetadataImage:
        for topic_id, partitions in self._partitions.items():
            if topic_id in self.topics:
                topic = replace(self.topics[topic_id], partitions=partitions.finish())
                self.map("topics")[topic_id] = topic
        changed = vars(self).copy()
        del changed["_image"], changed["_partitions"]
        return replace(self._image, **changed)


def _cluster(draft: _Draft, record: log.ClusterRecord) -> None:
    draft.cluster_id = record.cluster_id
    if record.generation is not None:
        draft.generation = record.generation


def _voters(draft: _Draft, record: log.VotersRecord) -> None:
    draft.registered_voters = tuple(sorted({*draft.registered_voters, *record.voters}))


def _controller(draft: _Draft, record: log.ControllerRecord) -> None:
    draft.controller = ControllerLease(
        controller_id=None if record.is_resignation else record.controller_id,
        controller_epoch=record.controller_epoch,
        offset=draft.offset,
    )


def _broker(draft: _Draft, record: log.BrokerRecord) -> None:
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


def _unregister_broker(draft: _Draft, record: log.UnregisterBrokerRecord) -> None:
    draft.map("brokers").pop(record.broker_id, None)
    draft.map("past_brokers")[record.broker_id] = record.broker_epoch


def _broker_change(draft: _Draft, record: log.BrokerChangeRecord) -> None:
    broker, state = draft.brokers.get(record.broker_id), record.broker_state
    if broker is not None and broker.broker_epoch == record.broker_epoch:
        since_ms = None
        if state is BrokerState.FENCED:  # fenced again, it keeps the time
            since_ms = draft.time_ms if broker.fenced_since_ms is None else broker.fenced_since_ms
        rack = broker.rack if record.rack is None else record.rack or None
        draft.map("brokers")[record.broker_id] = replace(
            broker, state=state, fenced_since_ms=since_ms, refused=record.refused, rack=rack
        )


def _topic(draft: _Draft, record: log.TopicRecord) -> None:
    draft.map("topics")[record.topic_id] = TopicImage(
        name=record.topic,
        topic_id=record.topic_id,
        first_partition_count=record.first_partition_count,
    )
    draft.map("topic_ids")[record.topic] = record.topic_id


def _remove_topic(draft: _Draft, record: log.RemoveTopicRecord) -> None:
    topic = draft.map("topics").pop(record.topic_id, None)
    if topic is not None and draft.topic_ids.get(topic.name) == record.topic_id:
        del draft.map("topic_ids")[topic.name]
    _forget_offsets(draft, lambda key: key.topic_id == record.topic_id)


def _forget_offsets(draft: _Draft, is_gone: Callable[[PartitionKey], bool]) -> None:
    offsets = draft.map("group_offsets")
    for place in [each for each in offsets if is_gone(each[1])]:
        del offsets[place]


def _set_partitions(draft: _Draft, kind: type, run: Iterable[Any]) -> None:
    """These two come by the million: a topic's are set at once."""
    for topic_id, records in groupby(run, attrgetter("topic_id")):
        partitions = draft.partitions(topic_id)
        if partitions is None:
            continue
        if kind is log.PartitionChangeRecord:
            partitions.merge([(each.partition, each.change) for each in records])
        else:
            for each in records:
                partitions.put(each.partition, each.registration)


def _remove_partition(draft: _Draft, record: log.RemovePartitionRecord) -> None:
    partitions = draft.partitions(record.topic_id)
    if partitions is None or partitions.get(record.partition) is None:
        return
    partitions.put(record.partition, None)
    topics = draft.map("topics")
    topics[record.topic_id] = replace(topics[record.topic_id], first_partition_count=0)
    _forget_offsets(draft, lambda key: key == record.key)


def _raise_high_watermark(draft: _Draft, record: log.HighWatermarkRecord) -> None:
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


def is_current(record: log.HighWatermarkRecord, partition: PartitionRegistration) -> bool:
    """Return whether nothing changed in `partition` since the record's author inspected it."""
    return (
        record.leader_epoch == partition.leader_epoch
        and record.partition_epoch == partition.partition_epoch
    )


def _config(draft: _Draft, record: log.ConfigRecord) -> None:
    if record.topic_id is None:
        configs = draft.map("configs")
    elif record.topic_id in draft.topics:
        topic = draft.topics[record.topic_id]
        configs = dict(topic.configs)
        draft.map("topics")[record.topic_id] = replace(topic, configs=configs)
    else:
        return
    if record.config_value is None:
        configs.pop(record.config_name, None)
    else:
        configs[record.config_name] = record.config_value


def _producer(draft: _Draft, record: log.ProducerRecord) -> None:
    if record.producer_id in draft.expired_producers:
        del draft.map("expired_producers")[record.producer_id]
    draft.map("producers")[record.producer_id] = record.producer_epoch
    if record.first_sequence is not None:
        draft.map("first_sequences")[record.producer_id] = record.first_sequence
    draft.map("producer_times")[record.producer_id] = _renewed_at_ms(draft, record)


def _renewed_at_ms(draft: _Draft, record: log.ProducerRecord | log.OffsetCommitRecord) -> int:
    """Return from when on a client is silent: the batch's time, which is not by the clock of its
    process alone (`stamp_ms`), or what a snapshot, or a reset of the time, says."""
    found: int = draft.time_ms if record.renewed_at_ms is None else record.renewed_at_ms
    return found


def _remove_producer(draft: _Draft, record: log.RemoveProducerRecord) -> None:
    """An id has expired. One that comes back begins above every epoch that has, and nobody knows
    what stands of it, until somebody vouches: so it is remembered."""
    draft.map("producers").pop(record.producer_id, None)
    draft.map("producer_times").pop(record.producer_id, None)
    if record.producer_id in draft.first_sequences:
        del draft.map("first_sequences")[record.producer_id]
    # Another run may use an id that a query, or somebody, has given a meaning.
    if record.producer_id and _OF_ONE_RUN.fullmatch(record.producer_id) is None:
        draft.map("expired_producers")[record.producer_id] = record.producer_epoch
    draft.expired_epoch = max(draft.expired_epoch, record.producer_epoch)


def _offset_commit(draft: _Draft, record: log.OffsetCommitRecord) -> None:
    place = (record.group, PartitionKey(record.topic_id, record.partition))
    if record.offset is None:
        draft.map("group_offsets").pop(place, None)
    elif record.topic_id in draft.topics:
        draft.map("group_offsets")[place] = GroupOffset(
            offset=record.offset,
            leader_epoch=record.leader_epoch,
            unclean_generation=record.unclean_generation or 0,
            saved_at_ms=_renewed_at_ms(draft, record),
        )


def _group_member(draft: _Draft, record: Any) -> None:
    """A record about a member that is gone changes nothing: none is refused. A group without
    members does not exist."""
    groups = draft.map("consumer_groups")
    group = groups.get(record.group)
    if isinstance(record, log.GroupMemberRecord):
        group = group or ConsumerGroup(group_epoch=record.group_epoch)
    if group is None:
        return
    members = dict(group.members)
    member = _member_after(members.get(record.member_id), record)
    if member is None:
        members.pop(record.member_id, None)
    else:
        members[record.member_id] = member
    if members:
        epoch = max(group.group_epoch, getattr(record, "group_epoch", NO_EPOCH))
        groups[record.group] = replace(group, group_epoch=epoch, members=members)
    else:
        del groups[record.group]


def _member_after(member: GroupMember | None, record: Record) -> GroupMember | None:
    if isinstance(record, log.GroupMemberRecord):
        return replace(
            member or GroupMember(member_id=record.member_id),
            instance_id=record.instance_id,
            subscribed_topics=record.subscribed_topics,
            assignor=record.assignor,
            client=record.client,
        )
    if member is None or isinstance(record, log.RemoveGroupMemberRecord):
        return None
    if isinstance(record, log.GroupTargetRecord):
        return replace(member, target=record.partitions)
    assert isinstance(record, log.GroupAssignmentRecord), record
    return replace(member, member_epoch=record.member_epoch, owned=record.partitions)


def _group_target_epoch(draft: _Draft, record: log.GroupTargetEpochRecord) -> None:
    group = draft.consumer_groups.get(record.group)
    if group is not None:
        draft.map("consumer_groups")[record.group] = replace(
            group,
            group_epoch=max(group.group_epoch, record.target_epoch),
            target_epoch=record.target_epoch,
            last_partitions=record.partitions,
        )


def _admin_request(draft: _Draft, record: AdminRequestRecord) -> None:
    draft.requests = (*draft.requests, record)


def _admin_result(draft: _Draft, record: log.AdminResultRecord) -> None:
    draft.requests = tuple(each for each in draft.requests if each.request != record.request)


def _expired(draft: _Draft, record: log.ExpiredRecord) -> None:
    raise HistoryExpiredError("the history is gone, as metadata.max.retention.ms says")


_REPLAY: Final[Mapping[type, Callable[[_Draft, Any], None]]] = {
    log.ClusterRecord: _cluster,
    log.ExpiredRecord: _expired,
    log.LeaderChangeRecord: lambda draft, record: None,
    log.VotersRecord: _voters,
    log.ControllerRecord: _controller,
    log.BrokerRecord: _broker,
    log.BrokerChangeRecord: _broker_change,
    log.UnregisterBrokerRecord: _unregister_broker,
    log.TopicRecord: _topic,
    log.RemoveTopicRecord: _remove_topic,
    log.RemovePartitionRecord: _remove_partition,
    log.HighWatermarkRecord: _raise_high_watermark,
    log.ConfigRecord: _config,
    log.ProducerRecord: _producer,
    log.RemoveProducerRecord: _remove_producer,
    log.OffsetCommitRecord: _offset_commit,
    log.GroupMemberRecord: _group_member,
    log.RemoveGroupMemberRecord: _group_member,
    log.GroupTargetRecord: _group_member,
    log.GroupAssignmentRecord: _group_member,
    log.GroupTargetEpochRecord: _group_target_epoch,
    log.AdminRequestRecord: _admin_request,
    log.AdminResultRecord: _admin_result,
}


def pair_of(name: object) -> TopicPartition:
    """Return the topic and the number by which a caller names a partition."""
    match name:
        case (str(topic), number) if not isinstance(number, bool) and hasattr(number, "__index__"):
            return TopicPartition(topic, number.__index__())
    raise InvalidRequestError(
        f"{name!r} names no partition: give topic and number, as in ('orders', 0)"
    )


def key_of(image: MetadataImage, name: object) -> PartitionKey:
    return partition_key(image, *pair_of(name))


def keys_of(image: MetadataImage, names: object) -> list[PartitionKey]:
    """Return the keys of (topic, partition) pairs; a single pair need not be in a list."""
    if isinstance(names, tuple | list) and len(names) == 2 and isinstance(names[0], str):
        return [key_of(image, names)]
    allowed = "pairs of a topic and a partition, as in ('orders', 0)"
    return [key_of(image, name) for name in listed(names, "partitions", allowed)]


def names_of(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[TopicPartition]:
    return sorted(image.name_of(key) for key in keys if image.partition(key) is not None)


def partition_key(image: MetadataImage, topic: str, partition: int) -> PartitionKey:
    """Return the key of a partition whose topic and number were given apart."""
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
    found = list(_rebuilding_cluster(image))
    for topic in image.topics.values():
        found.extend(_rebuilding_topic(topic))
    found.extend(_rebuilding_clients(image))
    found.extend(image.requests)
    if (lease := image.controller) is not None:
        found.append(
            log.ControllerRecord(
                controller_id=lease.controller_id or "",
                controller_epoch=lease.controller_epoch,
                is_resignation=lease.controller_id is None,
            )
        )
    return found


def _rebuilding_cluster(image: MetadataImage) -> Iterator[Record]:
    if image.cluster_id is not None:
        yield log.ClusterRecord(cluster_id=image.cluster_id, generation=image.generation or None)
    if image.registered_voters:
        yield log.VotersRecord(voters=image.registered_voters)
    for broker in image.brokers.values():
        yield log.BrokerRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            root=broker.root,
            rack=broker.rack,
            directory_id=broker.directory_id,
            broker_state=broker.state,
            fenced_since_ms=broker.fenced_since_ms,
            refused=broker.refused,
        )
    for broker_id, broker_epoch in image.past_brokers.items():
        yield log.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_epoch)
    for name, value in image.configs.items():
        yield log.ConfigRecord(topic_id=None, config_name=name, config_value=value)


def _rebuilding_clients(image: MetadataImage) -> Iterator[Record]:
    for producer_id, epoch in image.producers.items():
        yield log.ProducerRecord(
            producer_id=producer_id,
            producer_epoch=epoch,
            first_sequence=image.first_sequences.get(producer_id),
            renewed_at_ms=image.producer_times.get(producer_id),
        )
    for producer_id, epoch in image.expired_producers.items():
        yield log.RemoveProducerRecord(producer_id=producer_id, producer_epoch=epoch)
    if image.expired_epoch >= 0:
        epoch = ProducerEpoch(image.expired_epoch)
        yield log.RemoveProducerRecord(producer_id="", producer_epoch=epoch)
    for (name, key), place in image.group_offsets.items():
        yield log.OffsetCommitRecord.again(name, key, place, renewed_at_ms=place.saved_at_ms)
    for name, group in image.consumer_groups.items():
        yield from _rebuilding_group(name, group)


def _rebuilding_topic(topic: TopicImage) -> Iterator[Record]:
    yield log.TopicRecord(
        topic=topic.name,
        topic_id=topic.topic_id,
        first_partition_count=topic.first_partition_count,
    )
    for name, value in topic.configs.items():
        yield log.ConfigRecord(topic_id=topic.topic_id, config_name=name, config_value=value)
    yield from construct_many(
        log.PartitionRecord,
        {
            "topic": repeat(topic.name),
            "topic_id": repeat(topic.topic_id),
            "partition": topic.partitions,
            "registration": topic.partitions.values(),
            "cause": repeat(None),
        },
        len(topic.partitions),
    )


def _rebuilding_group(name: str, group: ConsumerGroup) -> Iterator[Record]:
    for member_id, member in group.members.items():
        yield log.GroupMemberRecord(
            group=name,
            group_epoch=group.group_epoch,
            member_id=member_id,
            instance_id=member.instance_id,
            subscribed_topics=member.subscribed_topics,
            assignor=member.assignor,
            client=member.client,
        )
        if member.target:
            yield log.GroupTargetRecord(group=name, member_id=member_id, partitions=member.target)
        if member.owned or member.member_epoch:
            yield log.GroupAssignmentRecord(
                group=name,
                member_id=member_id,
                member_epoch=member.member_epoch,
                partitions=member.owned,
            )
    if group.target_epoch:
        yield log.GroupTargetEpochRecord(
            group=name, target_epoch=group.target_epoch, partitions=group.last_partitions
        )
