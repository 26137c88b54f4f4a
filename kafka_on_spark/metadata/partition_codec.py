"""Registrations of partitions, and changes of them, as columns of the metadata table, and back.

Apart from `codec`, whose columns are a record's own fields: these are the fields of a value in it.
This file alone knows the number that stands for "none" (-1), and that null is "unchanged".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from kafka_on_spark.base.ids import KEEP, Keep
from kafka_on_spark.metadata.compaction import NOT_COMPACTED, Compaction
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionRecord

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
            yield name, [_offset_in(change.compaction, name) for change in changes]


def _offset_in(compaction: Compaction | Keep, name: str) -> int | None:
    return None if compaction is KEEP else getattr(compaction, name)


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
    """Return the function that converts a field of a change into its column."""
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
    """Return the registration that a row names."""
    fields = {name: from_wire(name, row[name]) for name in PARTITION_FIELDS}
    return PartitionRegistration(**fields, compaction=compaction_of(row))


def change_of(row: Row) -> PartitionChange:
    """Return the change that a row names; null is a field that stays."""
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
