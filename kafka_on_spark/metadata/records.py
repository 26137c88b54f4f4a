"""The records of the metadata log: a type for each kind of fact, as in KRaft, and one wide table.

A record is a value; its meaning stands in `image.replay` and nowhere else. In a change record a
field left at KEEP does not change. The records of a decision carry its `cause` in words with
figures. The batch's Stamp says once which process committed it, and when.

A column has one meaning and one type whatever the record, because people query the table. This file
alone knows the columns, the number that stands for "none" (-1), and that null is "unchanged". A
column is a plain list; storage turns it into Arrow. A field of a record is the column of its name,
but for those in `_FIELDS`.

Columns are encoded and decoded as a whole, runs of one record type at once: a snapshot's
partitions, a failover's changes and high watermarks come by the million. Equal values are shared.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from enum import Enum
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self, get_args

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import (
    KEEP,
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
from kafka_on_spark.metadata.partition import (
    NOT_COMPACTED,
    Compaction,
    GroupOffset,
    Memo,
    PartitionChange,
    PartitionRegistration,
    construct_many,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """A record of a decision, and why it was made."""

    cause: str | None = None


class MemberClient(NamedTuple):
    """The client that a member of a group is: its client.id, and the host and process it runs in.
    None: not given, or by a version that does not say."""

    client_id: str | None = None
    host: str | None = None
    process_id: int | None = None


NO_CLIENT: Final = MemberClient()


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
    client: MemberClient = NO_CLIENT


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


def log_end_at(batches: Iterable[tuple[Offset, int]], end: Offset, time_ms: int) -> Offset:
    """Return where a log ended at a moment, by the base offsets and times of its batches: where the
    fewest batches stand on the wrong side, the first such place. `end` is where it ends now.

    Times may go back: clocks differ, and some are wrong. A few batches by a clock that was far
    ahead, or behind, hide nothing. A later moment never has fewer records.
    """
    found, least, balance, is_found = Offset(0), 0, 0, True
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
    """A broker is fenced, unfenced or drained, or its root refuses a write, or it has another rack:
    `rack`, "" for none; None: unchanged."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    broker_state: BrokerState
    refused: RefusedWrite | None = None
    rack: str | None = None


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


# Records as rows.

Row = Mapping[str, Any]

Columns = Mapping[str, Sequence[Any] | None]
"""A column's values in order, lists as tuples; None: all null."""

COLUMNS: Final[Mapping[str, str]] = {
    "record_type": "string",
    "time": "timestamp",
    "controller_id": "string",
    "controller_epoch": "long",
    "cause": "string",
    "application_id": "string",
    "cluster_id": "string",
    "topic": "string",
    "topic_id": "string",
    "first_partition_count": "integer",
    "partition": "integer",
    "replicas": "list<integer>",
    "adding_replicas": "list<integer>",
    "removing_replicas": "list<integer>",
    "throttle_bytes_per_s": "long",
    "replica_uuids": "list<string>",
    "former_uuids": "list<string>",
    "directories": "list<string>",
    "isr": "list<integer>",
    "elr": "list<integer>",
    "unclean_generation": "long",
    "leader": "integer",
    "leader_epoch": "long",
    "partition_epoch": "long",
    "high_watermark": "long",
    "high_watermark_epoch": "long",
    "high_watermark_chain": "string",
    "log_end_offset": "long",
    "log_start_offset": "long",
    "compacted_below": "long",
    "cleaned_below": "long",
    "expiring_below": "long",
    "tombstones_below": "long",
    "expiring_since_ms": "long",
    "broker_id": "integer",
    "broker_epoch": "long",
    "root": "string",
    "rack": "string",
    "directory_id": "string",
    "broker_state": "string",
    "fenced_since_ms": "long",
    "refused_bytes": "long",
    "refused_by": "list<string>",
    "config_name": "string",
    "config_value": "string",
    "producer_id": "string",
    "producer_epoch": "long",
    "first_sequence": "long",
    "renewed_at_ms": "long",
    "group": "string",
    "offset": "long",
    "group_epoch": "long",
    "target_epoch": "long",
    "member_id": "string",
    "member_epoch": "long",
    "instance_id": "string",
    "subscribed_topics": "list<string>",
    "assignor": "string",
    "partitions": "list<string>",
    "request": "string",
    "result": "string",
    "voters": "list<string>",
    "generation": "long",
}
"""Column types of the metadata table, in order. `long` is bigint, `integer` is int."""

RESIGNED: Final = "resigned"
NONE: Final = -1

_COMPACTION: Final = Compaction.__slots__
_REGISTERED: Final = tuple(name for name in PartitionRegistration.__slots__ if name != "compaction")
_CHANGED: Final = tuple(name for name in PartitionChange.__slots__ if name != "compaction")
# In a change null is "unchanged", so "none" has a number.
_NONES: Final = frozenset({"leader", "high_watermark_epoch", "throttle_bytes_per_s"})
_SETS: Final = frozenset({"isr", "elr"})
_SEQUENCES: Final = frozenset(
    {
        "replicas",
        "replica_uuids",
        "former_uuids",
        "directories",
        "adding_replicas",
        "removing_replicas",
    }
)
# No two lists of uuids are equal: a search for an equal one would cost more than it saves.
_SHARED: Final = (_SETS | _SEQUENCES | _NONES) - {"replica_uuids"}


def encode(records: Sequence[Record], stamp: Stamp) -> dict[str, list[Any] | None]:
    """Return the table's columns for `records`, one list a column; None: all null."""
    columns: dict[str, list[Any] | None] = dict.fromkeys(COLUMNS)
    kinds: list[str] = []
    start, count = 0, len(records)
    for kind, group in groupby(records, type):
        run = list(group)
        kinds += [kind.__name__] * len(run)
        for name, values in _encoded(kind, run):
            if values.count(None) < len(run):
                column = columns[name] or [None] * count
                column[start : start + len(run)] = values
                columns[name] = column
        start += len(run)
    columns["record_type"] = kinds
    columns["time"] = [stamp.time_ms * 1000] * count
    for name in ("application_id", "controller_id", "controller_epoch"):
        value = getattr(stamp, name)
        if value is not None:  # a ControllerRecord has a controller of its own
            own = columns[name] or [None] * count
            columns[name] = [value if each is None else each for each in own]
    return columns


def _encoded(kind: type, run: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    for name, get, to_wire in _ENCODERS[kind]:
        values = list(map(get, run))
        yield name, values if to_wire is None else list(map(Memo(to_wire).__getitem__, values))
    if kind is PartitionChangeRecord:
        # Many partitions share a change.
        changes = {id(record.change): record.change for record in run}
        wires = {place: _change_wires(change) for place, change in changes.items()}
        for name in (*_CHANGED, *_COMPACTION):
            if any(each[name] is not None for each in wires.values()):
                yield name, [wires[id(record.change)][name] for record in run]


def _change_wires(change: PartitionChange) -> Row:
    wires = {name: _to_wire(name, getattr(change, name)) for name in _CHANGED}
    is_kept = change.compaction is KEEP
    return wires | {
        name: None if is_kept else getattr(change.compaction, name) for name in _COMPACTION
    }


def _to_wire(name: str, value: Any) -> Any:
    if value is KEEP:
        return None
    if name in _SETS:
        return sorted(value)
    return NONE if value is None and name in _NONES else value


def _from_wire(name: str, wire: Any) -> Any:
    if name in _SETS:
        return frozenset(wire)
    if name in _SEQUENCES:
        return tuple(wire)
    return None if name in _NONES and wire == NONE else wire


def _compaction_of(*wires: Any) -> Compaction:
    """Return the compaction that a row names; one without such offsets has none."""
    named = dict(zip(_COMPACTION, wires, strict=True))
    return NOT_COMPACTED if named["compacted_below"] is None else Compaction(**named)


def _change_of(*wires: Any) -> PartitionChange:
    named = zip(_CHANGED, wires, strict=False)
    compaction = _compaction_of(*wires[len(_CHANGED) :])
    return PartitionChange(
        **{name: _from_wire(name, wire) for name, wire in named if wire is not None},
        compaction=KEEP if compaction is NOT_COMPACTED else compaction,
    )


def _compacted(name: str, record: PartitionRecord) -> Any:
    compaction = record.registration.compaction
    return None if compaction == NOT_COMPACTED else getattr(compaction, name)


def _keys_of(wires: Sequence[str]) -> frozenset[PartitionKey]:
    parts = (wire.rsplit(":", 1) for wire in wires)
    return frozenset(PartitionKey(TopicId(topic_id), int(number)) for topic_id, number in parts)


def _client_of(wire: str | None) -> MemberClient:
    found = {} if wire is None else {**json.loads(wire)}
    return MemberClient(*map(found.get, MemberClient._fields))  # a newer version may say more


_Encoder = tuple[str, Callable[[Any], Any], Callable[[Any], Any] | None]
"""A column's name, the getter of its value, and the converter to the column's type."""

_FIELDS: Final[Mapping[str, tuple[Sequence[_Encoder], Callable[..., Any]]]] = {
    "is_resignation": (
        [("result", attrgetter("is_resignation"), lambda each: RESIGNED if each else None)],
        lambda result: result == RESIGNED,
    ),
    "broker_state": ([("broker_state", attrgetter("broker_state.value"), None)], BrokerState),
    "refused": (
        [
            ("refused_bytes", attrgetter("refused"), lambda each: each and each.size_bytes),
            ("refused_by", attrgetter("refused"), lambda each: each and each.hosts),
        ],
        lambda size, hosts: None if size is None else RefusedWrite(size, tuple(hosts or ())),
    ),
    "partitions": (
        [
            (
                "partitions",
                attrgetter("partitions"),
                lambda keys: [f"{topic_id}:{number}" for topic_id, number in sorted(keys)],
            )
        ],
        _keys_of,
    ),
    # A column of its own would be one that older processes don't know: they refuse its file.
    "client": (
        [
            (
                "request",
                attrgetter("client"),
                lambda each: json.dumps(each._asdict()) if any(each) else None,
            )
        ],
        _client_of,
    ),
    "registration": (
        [
            *(
                (name, attrgetter(f"registration.{name}"), partial(_to_wire, name))
                if name in {"leader", *_SETS}
                else (name, attrgetter(f"registration.{name}"), None)
                for name in _REGISTERED
            ),
            *((name, partial(_compacted, name), None) for name in _COMPACTION),
        ],
        PartitionRegistration,  # made by columns
    ),
    # Encoded by `_change_wires`.
    "change": ([(name, _change_wires, None) for name in (*_CHANGED, *_COMPACTION)], _change_of),
}
"""Fields that are not the column of their name: their columns, and what makes one of these."""

_NAMES: Final[Mapping[type, Sequence[str]]] = {
    kind: [each.name for each in fields_of(kind)] for kind in get_args(Record)
}
_ENCODERS: Final[Mapping[type, Sequence[_Encoder]]] = {
    kind: [
        encoder
        for name in _NAMES[kind]
        if name != "change"
        for encoder in (_FIELDS[name][0] if name in _FIELDS else [(name, attrgetter(name), None)])
    ]
    for kind in get_args(Record)
}
_KINDS: Final[Mapping[str, Any]] = {kind.__name__: kind for kind in get_args(Record)}


def decode(row: Row) -> Record:
    [record] = _decoded(row["record_type"], _Run(lambda name: (row[name],), 1, {}))
    return record


def decode_columns(
    columns: Columns, count: int, shared: dict[str, Memo[Any, Any]] | None = None
) -> list[Record]:
    """Return the records of `count` rows. `shared`: values of the rows before, of one file."""
    records: list[Record] = []
    known = {} if shared is None else shared
    start = 0
    for kind, group in groupby(columns["record_type"] or [None] * count):
        size = sum(1 for _ in group)
        records.extend(_decoded(kind, _Run(partial(_wires, columns, start, size), size, known)))
        start += size
    return records


def _wires(columns: Columns, start: int, size: int, name: str) -> Sequence[Any]:
    values = columns[name]
    return [None] * size if values is None else values[start : start + size]


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows of one type that follow each other in a file: `wires` returns a column of theirs."""

    wires: Callable[[str], Sequence[Any]]
    size: int
    shared: dict[str, Memo[Any, Any]]

    def values(self, name: str, make: Callable[..., Any], *columns: str) -> list[Any]:
        """Return what `make` makes of each row's values of some columns."""
        if name not in self.shared:
            self.shared[name] = Memo(lambda given: make(*given))
        wires = zip(*map(self.wires, columns), strict=True)
        return list(map(self.shared[name].__getitem__, wires))


def _decoded(kind: str | None, run: _Run) -> list[Record]:
    try:
        cls = _KINDS[kind or ""]
        fields = _fields_in(cls, run)
        made = construct_many(cls, fields, run.size)
        for record in made if cls is VotersRecord else ():
            record.__post_init__()
        return made
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise CorruptLogError("not a metadata record", record_type=kind) from error


def _fields_in(cls: Any, run: _Run) -> dict[str, Sequence[Any]]:
    fields: dict[str, Sequence[Any]] = {}
    for name in _NAMES[cls]:
        if name == "registration":
            fields[name] = _registrations(run)
        elif name in _FIELDS:
            encoders, make = _FIELDS[name]
            fields[name] = run.values(name, make, *(column for column, *_ in encoders))
        else:
            fields[name] = run.wires(name)
    return fields


def _registrations(run: _Run) -> list[PartitionRegistration]:
    fields: dict[str, Sequence[Any]] = {
        "compaction": run.values("compaction", _compaction_of, *_COMPACTION)
    }
    for name in _REGISTERED:
        if name in _SHARED:
            fields[name] = run.values(name, partial(_from_wire, name), name)
        else:
            fields[name] = run.wires(name)
    return PartitionRegistration.from_columns(fields, run.size)


def decode_stamp(row: Row) -> Stamp:
    """Return the stamp of a row; `time` is µs since 1970 UTC."""
    return Stamp(
        time_ms=row["time"] // 1000,
        controller_id=row["controller_id"],
        controller_epoch=row["controller_epoch"],
        application_id=row["application_id"],
    )
