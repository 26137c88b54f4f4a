"""What the metadata log holds: one record type a kind of fact, after KRaft's.

A record is a value; its meaning stands in `image.replay` and nowhere else. In a change record a
field left at KEEP does not change. The records of a decision carry its `cause` in words with
figures. The batch's Stamp says once which process committed it, and when.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Self

from kafka_on_spark.base.ids import (
    BrokerEpoch,
    BrokerId,
    ChainDigest,
    ControllerEpoch,
    DirectoryId,
    GroupEpoch,
    LeaderEpoch,
    MemberId,
    NodeId,
    Offset,
    PartitionEpoch,
    PartitionKey,
    ProducerEpoch,
    TopicId,
)
from kafka_on_spark.metadata.partition import GroupOffset, PartitionChange, PartitionRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """A record of a decision, and why it was made."""

    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberRecord(_Decided):
    """A member joins a group, or subscribes to other topics. The group takes its next epoch.

    A static member that takes another's place leaves the group's epoch as it is.
    """

    group: str
    group_epoch: GroupEpoch
    member_id: MemberId
    instance_id: str | None
    subscribed_topics: tuple[str, ...]
    assignor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveGroupMemberRecord(_Decided):
    """A member has left its group, or was fenced; what it owned is free."""

    group: str
    group_epoch: GroupEpoch
    member_id: MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTargetRecord(_Decided):
    """The partitions that a member is to have. Kafka's ConsumerGroupTargetAssignmentMember."""

    group: str
    member_id: MemberId
    partitions: frozenset[PartitionKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTargetEpochRecord(_Decided):
    """The targets of all members are those of this epoch of the group.

    Kafka's ConsumerGroupTargetAssignmentMetadata. It raises the group's epoch if that is lower: the
    partitions have changed, and no member. `partitions`: the last of each topic that was shared out
    then, so that a later one is known as added.
    """

    group: str
    target_epoch: GroupEpoch
    partitions: frozenset[PartitionKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignmentRecord(_Decided):
    """The partitions that a member owns from now on: it alone hands them out, and saves offsets.

    Kafka's ConsumerGroupCurrentMemberAssignment. `member_epoch`: of the targets that it has
    followed in giving up partitions; AWAY: a static member that will return.
    """

    group: str
    member_id: MemberId
    member_epoch: GroupEpoch
    partitions: frozenset[PartitionKey]


GroupRecord = (
    GroupMemberRecord
    | RemoveGroupMemberRecord
    | GroupTargetRecord
    | GroupTargetEpochRecord
    | GroupAssignmentRecord
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The process that committed a batch of records, and the time.

    Attributes:
        time_ms: When, as `stamp_ms` says; no rule of safety rests on it.
        controller_id: Process that decided, or None for an appender or a replication round.
        application_id: Spark's.
    """

    time_ms: int
    controller_id: str | None = None
    controller_epoch: ControllerEpoch | None = None
    application_id: str | None = None


def stamp_ms(own_ms: int, root_ms: int | None, newest_ms: int, ahead_max_ms: int) -> int:
    """Return the time of a commit or an append: its process's own, held to two other clocks.

    `own_ms` is by the clock of its process, `root_ms` by that of the root that the metadata log is
    written to (None: it tells none), `newest_ms` the time of the newest commit, and what has passed
    since. A clock that is ahead gives nobody its time: not more than `ahead_max_ms` after the
    root's. By one that is behind, records would be too old from the first moment on, and clients
    expire (I16, I29): not before the newest commit's, as far as the root's clock has come to it.
    And a root's clock that is behind does not take the time back. So one wrong clock of the three
    is outvoted.
    """
    if root_ms is None:
        return max(own_ms, newest_ms)  # a time that is too late deletes nothing
    least_ms, most_ms = min(root_ms, newest_ms), max(root_ms + ahead_max_ms, newest_ms)
    return min(max(own_ms, least_ms), most_ms)


def too_old_by_ms(own_ms: int, root_ms: int, newest_ms: int | None = None) -> int:
    """Return the time by which something is too old to be kept: the earliest of three clocks.

    `own_ms` is by the clock of the process that decides, `root_ms` by that of the root where the
    thing is, or of the leader's. `newest_ms` is the time of the newest commit in the metadata log,
    which is the decision's own: what `stamp_ms` says now. An older one would have nothing go where
    nobody else commits. None: what is judged is not part of the log, as a file that was never
    finished.
    """
    return min(own_ms, root_ms, own_ms if newest_ms is None else newest_ms)


def log_end_at(batches: Iterable[tuple[Offset, int]], end: Offset, time_ms: int) -> Offset:
    """Return where a log ended at a moment, by the base offsets and times of its batches: where the
    fewest batches stand on the wrong side, the first such place. `end` is where it ends now.

    Times may go back: clocks differ, and some are wrong. A few batches by a clock that was far
    ahead, or behind, hide nothing. A later moment never has fewer records.
    """
    found, least, balance = Offset(0), 0, 0
    is_found = True
    for base_offset, batch_ms in batches:
        if is_found:
            found = base_offset
        balance += 1 if batch_ms > time_ms else -1
        is_found = balance < least
        least = min(least, balance)
    return end if is_found else found


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord(_Decided):
    """The cluster exists. The first record of the first decision; and of one by which people go on
    without a majority of its metadata roots (`generation`: how often that was; None: as before);
    and of one that says what time it is, no more.
    """

    cluster_id: str
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRecord(_Decided):
    """A controller claims, renews or resigns the lease. A resignation leaves the epoch taken."""

    controller_id: str
    controller_epoch: ControllerEpoch
    is_resignation: bool = False


class BrokerState(Enum):
    """Whether a broker's replicas count. Source: KRaft's BrokerRegistration flags."""

    ACTIVE = "active"  # may lead and be in sync
    FENCED = "fenced"  # its root does not answer: it leads nothing and is in no ISR
    DRAINING = "draining"  # controlled shutdown: keeps its replicas, takes no leadership


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """A write for which a broker's root has no room, or (size 0) any, since it is read-only.
    `hosts`: the first two that have met it."""

    size_bytes: int
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        if not self.size_bytes:
            return "read-only"
        return f"full (no room for {self.size_bytes:,} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord(_Decided):
    """A broker registers; a second record of an id is another disk or another root.

    `fenced_since_ms` and `refused` are set in a snapshot only.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    root: str
    rack: str | None
    directory_id: DirectoryId
    broker_state: BrokerState
    fenced_since_ms: int | None = None
    refused: RefusedWrite | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChangeRecord(_Decided):
    """A broker is fenced, unfenced or drained, or its root refuses a write."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    broker_state: BrokerState
    refused: RefusedWrite | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord(_Decided):
    """A broker is unregistered; `broker_epoch` stays taken if its id is registered again."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(_Decided):
    """A topic exists under this name, created with `first_partition_count` partitions.

    In a snapshot it is 0 once partitions were removed (see TopicImage).
    """

    topic: str
    topic_id: TopicId
    first_partition_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord(_Decided):
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfPartition(_Decided):
    """A record that is about one partition."""

    topic_id: TopicId
    partition: int

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.topic_id, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord(_OfPartition):
    """A partition exists as registered (in a snapshot: with all later records folded in).

    `topic` repeats the topic's name, so that the table can be queried without a join.
    """

    topic: str
    registration: PartitionRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord(_OfPartition):
    """A partition's registration changes.

    `topic`, `leader_epoch` and `partition_epoch` repeat what `change` leads to, so that the
    table can be queried without replay.
    """

    change: PartitionChange
    topic: str
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePartitionRecord(_OfPartition):
    """A topic's last partition is gone, with its records. Kafka has no such record."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkRecord(_OfPartition):
    """The high watermark moves, or (with None) only the leader's log end is recorded.

    Valid only if the partition's leader epoch and partition epoch are still those that its author
    saw; otherwise replay ignores it. The high watermark, the epoch of the record
    below it and the chain digest at it are given together, or none of them.
    """

    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    high_watermark: Offset | None
    high_watermark_epoch: LeaderEpoch | None
    high_watermark_chain: ChainDigest | None
    log_end_offset: Offset
    log_start_offset: Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(_Decided):
    """A setting of the cluster (topic_id None) or of a topic; value None removes it."""

    topic_id: TopicId | None
    config_name: str
    config_value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRecord(_Decided):
    """A run of a producer takes the producer's next epoch, and fences the run before; or, with a
    time (ms since 1970 UTC), the run of this epoch goes on: its id does not expire. With a first
    sequence its id had expired: of lower ones nobody knows whether they stand; None: unchanged."""

    producer_id: str
    producer_epoch: ProducerEpoch
    first_sequence: int | None = None
    renewed_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveProducerRecord(_Decided):
    """A producer id has expired: no run renewed it. In a snapshot those that may come back, and
    without an id the highest epoch of all that have."""

    producer_id: str
    producer_epoch: ProducerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRecord(_Decided):
    """A consumer group's saved position in a partition; offset None removes it. `renewed_at_ms`:
    when it was saved, in a snapshot."""

    group: str
    topic_id: TopicId
    partition: int
    offset: Offset | None
    leader_epoch: LeaderEpoch | None
    unclean_generation: int | None = None
    renewed_at_ms: int | None = None

    @classmethod
    def again(
        cls,
        group: str,
        key: PartitionKey,
        place: GroupOffset,
        *,
        renewed_at_ms: int | None = None,
        cause: str | None = None,
    ) -> Self:
        """Return the record that saves a position once more."""
        return cls(
            group=group,
            topic_id=key.topic_id,
            partition=key.partition,
            offset=place.offset,
            leader_epoch=place.leader_epoch,
            unclean_generation=place.unclean_generation or None,
            renewed_at_ms=renewed_at_ms,
            cause=cause,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRequestRecord(_Decided):
    """A process asks the active controller for a command; `request` is JSON with its id."""

    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminResultRecord(_Decided):
    """The answer to a request, committed with the decision on it."""

    request: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersRecord(_Decided):
    """All voters of the metadata quorum, a text each: node id, directory id and root, with colons
    between. The first record of every metadata log names the cluster, too; a log without any other
    decision is of a cluster whose creation was cut short.
    """

    voters: tuple[str, ...]
    cluster_id: str | None = None

    def __post_init__(self) -> None:
        assert self.voters, "nobody would decide"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChangeRecord(_Decided):
    """A voter leads the metadata quorum: the first batch of its epoch, and alone in it.

    It changes nothing: once it is committed, so is all that stands before it (Raft §8).
    """

    leader: NodeId
    directory_id: DirectoryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRecord(_Decided):
    """Stands in the place of a record whose history is gone, as metadata.max.retention.ms says.

    Offsets, batches and their times stay, so the quorum and the copying of logs know nothing of it.
    Nothing replays one: what it was is in each snapshot from there on.
    """


def has_expired(batch: "MetadataBatch") -> bool:
    """Return whether the records of a batch are gone: all of them go at once, the oldest batches
    first."""
    return isinstance(batch.records[0], ExpiredRecord)


Record = (
    ClusterRecord
    | VotersRecord
    | LeaderChangeRecord
    | ControllerRecord
    | BrokerRecord
    | BrokerChangeRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | RemovePartitionRecord
    | HighWatermarkRecord
    | ConfigRecord
    | ProducerRecord
    | RemoveProducerRecord
    | OffsetCommitRecord
    | GroupMemberRecord
    | RemoveGroupMemberRecord
    | GroupTargetRecord
    | GroupTargetEpochRecord
    | GroupAssignmentRecord
    | AdminRequestRecord
    | AdminResultRecord
    | ExpiredRecord
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataBatch:
    """One commit of the metadata log: the records of one decision, at least one."""

    base_offset: Offset
    stamp: Stamp
    records: tuple[Record, ...]

    @property
    def end_offset(self) -> Offset:
        return Offset(self.base_offset + len(self.records))
