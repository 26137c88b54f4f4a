"""Metadata records as rows of one wide table, and back.

One row a record, one meaning and one type a column whatever the record, because people query
the table. This file alone knows the columns, the number that stands for "none" (-1), and that null
is "unchanged". A column is a plain list, so that no engine is needed; storage turns lists into
Arrow.

For files of a million rows whole columns are decoded: runs of the record types that come by the
million (a snapshot's partitions, a failover's changes, high watermarks) are constructed field by
field, and equal values are shared. All other records, and damaged ones, are decoded row by row:
`decode` defines the result.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import groupby, repeat
from operator import attrgetter
from typing import Any, Final

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import KEEP, PartitionKey, TopicId
from kafka_on_spark.metadata.partition import (
    NOT_COMPACTED,
    Compaction,
    Memo,
    PartitionChange,
    PartitionRegistration,
    construct_many,
)
from kafka_on_spark.metadata.records import (
    AdminRequestRecord,
    AdminResultRecord,
    BrokerChangeRecord,
    BrokerRecord,
    BrokerState,
    ClusterRecord,
    ConfigRecord,
    ControllerRecord,
    ExpiredRecord,
    GroupAssignmentRecord,
    GroupMemberRecord,
    GroupTargetEpochRecord,
    GroupTargetRecord,
    HighWatermarkRecord,
    LeaderChangeRecord,
    OffsetCommitRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerRecord,
    Record,
    RefusedWrite,
    RemoveGroupMemberRecord,
    RemovePartitionRecord,
    RemoveProducerRecord,
    RemoveTopicRecord,
    Stamp,
    TopicRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)

Row = Mapping[str, Any]

Field = tuple[str, Callable[[Any], Any], Callable[[Any], Any] | None]
"""A column's name, the getter of its value, and the converter to the column's type."""

NONE: Final = -1
COMPACTION_FIELDS: Final = Compaction.__slots__
PARTITION_FIELDS: Final = tuple(
    name for name in PartitionRegistration.__slots__ if name != "compaction"
)
CHANGE_FIELDS: Final = tuple(name for name in PartitionChange.__slots__ if name != "compaction")
# In a change null is "unchanged", so "none" has a number.
NONES: Final = frozenset({"leader", "high_watermark_epoch", "throttle_bytes_per_s"})
SETS: Final = frozenset({"isr", "elr"})
SEQUENCES: Final = frozenset(
    {
        "replicas",
        "replica_uuids",
        "former_uuids",
        "directories",
        "adding_replicas",
        "removing_replicas",
    }
)


def change_columns(changes: Sequence[PartitionChange]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the columns of changes; a change that many partitions share is converted once."""
    places = {id(change): change for change in changes}
    for name in CHANGE_FIELDS:
        to_wire = _none if name in NONES else _change_to_wire(name)
        wires = {place: to_wire(getattr(change, name)) for place, change in places.items()}
        if any(wire is not None for wire in wires.values()):
            yield name, [wires[id(change)] for change in changes]
    if any(change.compaction is not KEEP for change in places.values()):
        for name in COMPACTION_FIELDS:
            yield (
                name,
                [
                    None if change.compaction is KEEP else getattr(change.compaction, name)
                    for change in changes
                ],
            )


def _registered_offset(name: str) -> Callable[[Any], Any]:
    """Return the getter of a field of a registration's compaction; null where there is none."""
    get = attrgetter(name)

    def of(record: PartitionRecord) -> Any:
        compaction = record.registration.compaction
        return None if compaction == NOT_COMPACTED else get(compaction)

    return of


def _sorted(value: Any) -> Any:
    return None if value is KEEP else sorted(value)


def _listed(value: Any) -> Any:
    return None if value is KEEP else list(value)


def _none(value: Any) -> Any:
    return NONE if value is None else _none_if_keep(value)


def _none_if_keep(value: Any) -> Any:
    return None if value is KEEP else value


def _change_to_wire(name: str) -> Callable[[Any], Any]:
    if name in SETS:
        return _sorted
    return _listed if name in SEQUENCES else _none_if_keep


def _registered_to_wire(name: str) -> Callable[[Any], Any] | None:
    """Return the function that converts a field of a registration; None: it stays as it is."""
    if name in SETS:
        return sorted
    return _none if name == "leader" else None


REGISTRATION_COLUMNS: Final[Sequence[Field]] = (
    *(
        (name, attrgetter(f"registration.{name}"), _registered_to_wire(name))
        for name in PARTITION_FIELDS
    ),
    *((name, _registered_offset(name), None) for name in COMPACTION_FIELDS),
)
"""The columns of the registration of a PartitionRecord."""


def registration_of(row: Row) -> PartitionRegistration:
    fields = {name: from_wire(name, row[name]) for name in PARTITION_FIELDS}
    return PartitionRegistration(**fields, compaction=compaction_of(row))


def change_of(row: Row) -> PartitionChange:
    named = {name: from_wire(name, row[name]) for name in CHANGE_FIELDS if row[name] is not None}
    is_kept = row["compacted_below"] is None
    return PartitionChange(**named, compaction=KEEP if is_kept else compaction_of(row))


def compaction_of(row: Row) -> Compaction:
    """Return the compaction that a row names; one without such offsets has none."""
    if row["compacted_below"] is None:
        return NOT_COMPACTED
    return Compaction(**{name: row[name] for name in COMPACTION_FIELDS})


def from_wire(name: str, wire: Any) -> Any:
    if name in SETS:
        return frozenset(wire)
    if name in SEQUENCES:
        return tuple(wire)
    return None if name in NONES and wire == NONE else wire


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


Columns = Mapping[str, Sequence[Any] | None]
"""A column's values in order, lists as tuples; None: all null."""

UNIQUE: Final = frozenset({"replica_uuids"})
"""Lists that are never equal: a search for an equal one would cost more than it saves."""

RUN_MIN: Final = 8
"""From so many rows of one type on, columns are faster than rows."""


class ColumnDecoder:
    """Decodes the records of one file, which may come in several parts."""

    @cached_property
    def _shared(self) -> "_Values":
        return _Values()

    def records(self, columns: Columns, count: int) -> list[Record]:
        """Return the records of `count` rows.

        Raises:
            CorruptLogError: A row is none of this version's records.
        """
        records: list[Record] = []
        kinds = columns["record_type"] or [None] * count
        start = 0
        for kind, group in groupby(kinds):
            size = sum(1 for _ in group)
            run = _slice(columns, start, start + size)
            records.extend(self._decode_run(kind, run, size))
            start += size
        return records

    def _decode_run(self, kind: str | None, run: Columns, size: int) -> Sequence[Record]:
        decoder = _DECODERS.get(kind or "")
        if decoder is not None and size >= RUN_MIN:
            # An error is raised below, for its row.
            with suppress(KeyError, TypeError, ValueError, AssertionError):
                return decoder(run, size, self._shared)
        return [decode(row) for row in rows_of(run, size)]


def rows_of(columns: Columns, count: int) -> list[Row]:
    given = [values or [None] * count for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*given, strict=True)]


def _slice(columns: Columns, start: int, end: int) -> Columns:
    if start == 0 and end == len(columns["record_type"] or ()):
        return columns
    return {name: values and values[start:end] for name, values in columns.items()}


class _Values:
    """Values of one file that many records share."""

    def __init__(self) -> None:
        self._by_name: dict[str, Memo[Any, Any]] = {
            name: Memo(partial(from_wire, name)) for name in {*SETS, *SEQUENCES, *NONES} - UNIQUE
        }
        self.changes: Memo[tuple[Any, ...], PartitionChange] = Memo(_change)
        self.compactions: Memo[tuple[Any, ...], Compaction] = Memo(_compaction)

    def of(self, name: str, wires: Sequence[Any]) -> list[Any]:
        if name in UNIQUE:
            return list(map(tuple, wires))
        values = self._by_name.get(name)
        return list(wires) if values is None else list(map(values.__getitem__, wires))


def _change(wires: tuple[Any, ...]) -> PartitionChange:
    own, others = wires[: len(CHANGE_FIELDS)], wires[len(CHANGE_FIELDS) :]
    return PartitionChange(
        **{
            name: KEEP if wire is None else from_wire(name, wire)
            for name, wire in zip(CHANGE_FIELDS, own, strict=True)
        },
        compaction=KEEP if others[0] is None else _compaction(others),
    )


def _compaction(wires: tuple[Any, ...]) -> Compaction:
    return compaction_of(dict(zip(COMPACTION_FIELDS, wires, strict=True)))


def _compactions(run: Columns, size: int, shared: _Values) -> Iterable[Compaction]:
    if run["compacted_below"] is None:
        return repeat(NOT_COMPACTED, size)
    wires = zip(*(_given(run, name, size) for name in COMPACTION_FIELDS), strict=True)
    return list(map(shared.compactions.__getitem__, wires))


def _given(run: Columns, name: str, size: int) -> Sequence[Any]:
    return run[name] or [None] * size


def _partitions(run: Columns, size: int, shared: _Values) -> Sequence[Record]:
    fields = {name: shared.of(name, _given(run, name, size)) for name in PARTITION_FIELDS}
    fields["compaction"] = list(_compactions(run, size, shared))
    return construct_many(
        PartitionRecord,
        {
            **{name: _given(run, name, size) for name in ("topic", "topic_id", "partition")},
            "registration": PartitionRegistration.from_columns(fields, size),
            "cause": _given(run, "cause", size),
        },
        size,
    )


def _changes(run: Columns, size: int, shared: _Values) -> Sequence[Record]:
    names = (*CHANGE_FIELDS, *COMPACTION_FIELDS)
    wires = zip(*(_given(run, name, size) for name in names), strict=True)
    changes = list(map(shared.changes.__getitem__, wires))
    named = ("topic_id", "partition", "topic", "leader_epoch", "partition_epoch", "cause")
    fields: dict[str, Sequence[Any]] = {name: _given(run, name, size) for name in named}
    return construct_many(PartitionChangeRecord, {**fields, "change": changes}, size)


def _high_watermarks(run: Columns, size: int, shared: _Values) -> Sequence[Record]:
    names = HighWatermarkRecord.__slots__
    return construct_many(
        HighWatermarkRecord, {name: _given(run, name, size) for name in names}, size
    )


_DECODERS: Final[Mapping[str, Callable[[Columns, int, _Values], Sequence[Record]]]] = {
    "PartitionRecord": _partitions,
    "PartitionChangeRecord": _changes,
    "HighWatermarkRecord": _high_watermarks,
}
