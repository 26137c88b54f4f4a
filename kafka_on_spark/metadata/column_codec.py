"""Decoding whole columns into records, for files of a million rows: faster than row by row.

Runs of the record types that come by the million (a snapshot's partitions, a failover's changes,
high watermarks) are constructed field by field, and equal values are shared. All other records, and
damaged ones, are decoded row by row: `codec.decode` defines the result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import groupby, repeat
from typing import Any, Final

from kafka_on_spark.base.ids import KEEP
from kafka_on_spark.metadata.codec import decode
from kafka_on_spark.metadata.columns import Memo, construct_many
from kafka_on_spark.metadata.compaction import NOT_COMPACTED, Compaction
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.partition_codec import (
    CHANGE_FIELDS,
    COMPACTION_FIELDS,
    NONES,
    PARTITION_FIELDS,
    SEQUENCES,
    SETS,
    Row,
    compaction_of,
    from_wire,
)
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
)

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
    """Return `count` rows of `columns`."""
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
        """Return the values of a column."""
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
