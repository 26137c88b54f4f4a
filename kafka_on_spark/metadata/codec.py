"""Metadata records as rows of one wide table, and back.

One row a record, one meaning and one type a column whatever the record, because people query
the table. The codecs alone know the columns: this one names them all, and `partition_codec` has
those of a partition's state. A column is a plain list, so that no engine is needed; storage turns
lists into Arrow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.metadata.broker import BrokerState, RefusedWrite
from kafka_on_spark.metadata.group_records import (
    GroupAssignmentRecord,
    GroupMemberRecord,
    GroupTargetEpochRecord,
    GroupTargetRecord,
    RemoveGroupMemberRecord,
)
from kafka_on_spark.metadata.partition_codec import (
    REGISTRATION_COLUMNS,
    Field,
    Row,
    change_columns,
    change_of,
    registration_of,
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
    HighWatermarkRecord,
    LeaderChangeRecord,
    OffsetCommitRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerRecord,
    Record,
    RemovePartitionRecord,
    RemoveProducerRecord,
    RemoveTopicRecord,
    Stamp,
    TopicRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)

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

# Records whose fields are columns of the same names and plain values.
_PLAIN: Final[tuple[Any, ...]] = (
    ClusterRecord,
    VotersRecord,
    LeaderChangeRecord,
    TopicRecord,
    RemoveTopicRecord,
    RemovePartitionRecord,
    UnregisterBrokerRecord,
    HighWatermarkRecord,
    ConfigRecord,
    ProducerRecord,
    RemoveProducerRecord,
    OffsetCommitRecord,
    GroupMemberRecord,
    RemoveGroupMemberRecord,
    AdminRequestRecord,
    AdminResultRecord,
    ExpiredRecord,
)

_Broker = BrokerRecord | BrokerChangeRecord
_Sharing = GroupTargetRecord | GroupTargetEpochRecord | GroupAssignmentRecord
_SHARING: Final[tuple[type[_Sharing], ...]] = (
    GroupTargetRecord,
    GroupTargetEpochRecord,
    GroupAssignmentRecord,
)


def encode(records: Sequence[Record], stamp: Stamp) -> dict[str, list[Any] | None]:
    """Return the table's columns for `records`, one list a column; None: all null.

    It works column by column, since a failover has tens of thousands of records of one type.
    """
    columns: dict[str, list[Any] | None] = dict.fromkeys(COLUMNS)
    start = 0
    for kind, group in groupby(records, type):
        run = list(group)
        for name, values in _columns_of(kind, run):
            if values.count(None) < len(run):
                column = columns[name] or [None] * len(records)
                column[start : start + len(run)] = values
                columns[name] = column
        start += len(run)
    columns["record_type"] = [type(record).__name__ for record in records]
    columns["time"] = [stamp.time_ms * 1000] * len(records)
    if stamp.application_id is not None:
        columns["application_id"] = [stamp.application_id] * len(records)
    if stamp.controller_id is not None:
        _set_column(columns, "controller_id", stamp.controller_id, len(records))
        _set_column(columns, "controller_epoch", stamp.controller_epoch, len(records))
    return columns


def _columns_of(kind: type, run: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    for name, get, to_wire in _FIELDS[kind]:
        values = list(map(get, run))
        yield name, values if to_wire is None else list(map(to_wire, values))
    if kind is PartitionChangeRecord:
        yield from change_columns([record.change for record in run])


def _set_column(columns: dict[str, list[Any] | None], name: str, value: Any, count: int) -> None:
    """Put the stamp's value where no ControllerRecord has its own."""
    own = columns[name] or [None] * count
    columns[name] = [value if each is None else each for each in own]


def _plain_fields(*names: str) -> list[Field]:
    """Return the fields whose columns have their names and plain values."""
    return [(name, attrgetter(name), None) for name in names]


def _broker_fields(cls: type[_Broker]) -> list[Field]:
    plain = [name for name in cls.__slots__ if name not in ("broker_state", "refused")]
    return [
        *_plain_fields(*plain),
        ("broker_state", attrgetter("broker_state.value"), None),
        ("refused_bytes", attrgetter("refused"), lambda each: each and each.size_bytes),
        ("refused_by", attrgetter("refused"), lambda each: each and list(each.hosts)),
    ]


def _sharing_fields(cls: type[_Sharing]) -> list[Field]:
    plain = [name for name in cls.__slots__ if name != "partitions"]
    return [*_plain_fields(*plain), ("partitions", attrgetter("partitions"), _keys_to_wire)]


def _keys_to_wire(keys: frozenset[PartitionKey]) -> list[str]:
    return [f"{topic_id}:{partition}" for topic_id, partition in sorted(keys)]


_FIELDS: Final[Mapping[type, Sequence[Field]]] = {
    **{cls: _plain_fields(*cls.__slots__) for cls in _PLAIN},
    ControllerRecord: [
        *_plain_fields("cause", "controller_id", "controller_epoch"),
        ("result", attrgetter("is_resignation"), lambda each: RESIGNED if each else None),
    ],
    BrokerRecord: _broker_fields(BrokerRecord),
    BrokerChangeRecord: _broker_fields(BrokerChangeRecord),
    **{cls: _sharing_fields(cls) for cls in _SHARING},
    PartitionRecord: [
        *_plain_fields("topic", "topic_id", "partition", "cause"),
        *REGISTRATION_COLUMNS,
    ],
    PartitionChangeRecord: [
        # And those of its change, see `change_columns`.
        *_plain_fields(
            "topic", "topic_id", "partition", "leader_epoch", "partition_epoch", "cause"
        ),
    ],
}


def decode(row: Row) -> Record:
    """Return the record of one row.

    Raises:
        CorruptLogError: This version knows no such record.
    """
    kind = row["record_type"]
    try:
        cls, parts = _KINDS[kind]
        fields = {name: row[name] for name in cls.__slots__ if name not in parts}
        record: Record = cls(**fields, **{name: part(row) for name, part in parts.items()})
        return record
    except (KeyError, TypeError, ValueError, AssertionError) as error:
        raise CorruptLogError("not a metadata record", record_type=kind) from error


def decode_stamp(row: Row) -> Stamp:
    """Return the stamp of a row; `time` is µs since 1970 UTC."""
    return Stamp(
        time_ms=row["time"] // 1000,
        controller_id=row["controller_id"],
        controller_epoch=row["controller_epoch"],
        application_id=row["application_id"],
    )


def _keys_from_wire(row: Row) -> frozenset[PartitionKey]:
    parts = (wire.rsplit(":", 1) for wire in row["partitions"])
    return frozenset(PartitionKey(TopicId(topic_id), int(number)) for topic_id, number in parts)


def _refused_in(row: Row) -> RefusedWrite | None:
    size_bytes = row["refused_bytes"]
    return None if size_bytes is None else RefusedWrite(size_bytes, tuple(row["refused_by"] or ()))


_Parts = Mapping[str, Callable[[Row], Any]]
"""The fields of a record that are no column's plain value, and how a row says them."""

_BROKER: Final[_Parts] = {
    "broker_state": lambda row: BrokerState(row["broker_state"]),
    "refused": _refused_in,
}
_PARTS: Final[Mapping[Any, _Parts]] = {
    **{cls: {} for cls in _PLAIN},
    ControllerRecord: {"is_resignation": lambda row: row["result"] == RESIGNED},
    BrokerRecord: _BROKER,
    BrokerChangeRecord: _BROKER,
    **{cls: {"partitions": _keys_from_wire} for cls in _SHARING},
    PartitionRecord: {"registration": registration_of},
    PartitionChangeRecord: {"change": change_of},
}
_KINDS: Final[Mapping[str, tuple[Any, _Parts]]] = {
    cls.__name__: (cls, parts) for cls, parts in _PARTS.items()
}
