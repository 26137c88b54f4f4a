"""Metadata records as rows of one wide table, and back.

One row a record, one meaning and one type a column whatever the record, because people query
the table. This file alone knows the columns, the number that stands for "none" (-1), and that null
is "unchanged". A column is a plain list, so that no engine is needed; storage turns lists into
Arrow. A field of a record is the column of its name, but for those in `_FIELDS`.

Columns are encoded and decoded as a whole, runs of one record type at once: a snapshot's
partitions, a failover's changes and high watermarks come by the million. Equal values are shared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as fields_of
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, get_args

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
    BrokerState,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RefusedWrite,
    Stamp,
    VotersRecord,
)

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
_UNIQUE: Final = "replica_uuids"
"""Lists that are never equal: a search for an equal one would cost more than it saves."""


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
    """Return the record of one row."""
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
        if name in _SETS | _SEQUENCES | _NONES and name != _UNIQUE:
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


def rows_of(columns: Columns, count: int) -> list[Row]:
    given = [values or [None] * count for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*given, strict=True)]
