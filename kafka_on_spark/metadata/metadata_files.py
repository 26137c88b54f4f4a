"""Files of a voter's table: their headers in it, and their rows.

The table's counters are the voter's epoch, its votes and the leaders that it has marked: Delta's
`txn` actions, as a replica's, only raised, and part of the commit that changes the log. The header
of a file's batch is in the partition columns, so a log's headers are known without reading a file.
A file of several batches, or one that names voters, has them in the column `headers`: what was
merged, as runs.

The rows of a file are typed columns, of one or more batches. A column without any value is left out
of a file: Delta reads it as null, and a commit of a few records writes a few columns instead of
forty. Files are read without `to_numpy`, scalars and most of `pyarrow.compute`: these make pyarrow
import pandas, which would delay each opening of a cluster by half a second.

What is missing, damaged or not of this version is a CorruptLogError, perhaps after some rows.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import DirectoryId, ImpossibleValueError, NodeId, Offset, QuorumEpoch
from kafka_on_spark.metadata.metadata_root import MetadataIdentity
from kafka_on_spark.metadata.partition import Memo
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    Mark,
    RaftBatch,
    RaftLog,
    TableChange,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
    log_of,
)
from kafka_on_spark.metadata.records import (
    COLUMNS,
    Columns,
    ControllerRecord,
    ExpiredRecord,
    MetadataBatch,
    Record,
    Row,
    Stamp,
    decode_columns,
    decode_stamp,
    encode,
)
from kafka_on_spark.store.delta.delta_files import FileEntry
from kafka_on_spark.store.error_translation import parsing
from kafka_on_spark.store.local_files import ROWS_MAX
from kafka_on_spark.store.parquet_files import read_row_groups
from kafka_on_spark.store.roots import RootFiles

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "long": pa.int64(),
    "integer": pa.int32(),
    "list<integer>": pa.list_(pa.field("element", pa.int32())),
    "list<string>": pa.list_(pa.field("element", pa.string())),
}
FILE_SCHEMA: Final = pa.schema(
    [
        ("offset_delta", pa.int32()),
        ("batch_base_offset", pa.int64()),
        *((name, _TYPES[kind]) for name, kind in COLUMNS.items()),
    ]
)
"""`batch_base_offset` is where a record's batch begins: batches stay apart in merged files."""


FORMAT_VERSION: Final = "3"

LOG_END_OFFSET: Final = "log-end-offset"
QUORUM_EPOCH: Final = "quorum-epoch"
VOTE: Final = "vote/"
LEADER: Final = "leader/"

HISTORY_START: Final = "history-start"
HISTORY_START_MS: Final = "history-start-ms"
"""Where the history begins, if metadata.max.retention.ms has ended some of it: the records before
are expired. And when the newest of these was committed."""

HEADER: Final = ("base_offset", "epoch", "write_id", "headers")
TABLE_SCHEMA: Final = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("epoch", pa.int32()),
        ("write_id", pa.string()),
        ("headers", pa.string()),
        *FILE_SCHEMA,
    ]
)


def check_format(found: Mapping[str, str], root: str, identity: MetadataIdentity) -> None:
    version = found.get("kos.format.version", "none")
    if version != FORMAT_VERSION:
        advice = (
            "use a newer kafka_on_spark"
            if version.isdecimal() and int(version) > int(FORMAT_VERSION)
            else "create it again, and append its records anew"
        )
        raise CorruptLogError(
            f"the cluster at {root} has format {version}, this version reads"
            f" {FORMAT_VERSION}: {advice}"
        )
    for name, value in identity.configuration.items():
        if found.get(name) != value:
            table = identity.table_at(root)
            words = f"the table at {table} is another metadata root's: restore its own"
            raise CorruptLogError(words, setting=name, expected=value, found=found.get(name))


def table_of(key: VoterKey, counters: Mapping[str, int], log: RaftLog, version: int) -> VoterTable:
    try:
        return VoterTable(
            key,
            QuorumEpoch(counters.get(QUORUM_EPOCH, 0)),
            marks_in(counters, VOTE),
            marks_in(counters, LEADER),
            log,
            version,
        )
    except (ImpossibleValueError, ValueError) as error:
        raise CorruptLogError(f"the counters of voter {key} can't be: {error}") from error


def marks_in(counters: Mapping[str, int], prefix: str) -> tuple[Mark, ...]:
    """Return the votes or the marks in counters, by their prefix: the oldest first."""
    marks = (
        (_key_of(name.removeprefix(prefix)), QuorumEpoch(epoch))
        for name, epoch in counters.items()
        if name.startswith(prefix)
    )
    return tuple(sorted(marks, key=lambda mark: (mark[1], mark[0].node_id)))


def _key_of(text: str) -> VoterKey:
    node_id, _, directory_id = text.partition(":")
    return VoterKey(NodeId(int(node_id)), DirectoryId(directory_id))


def counters_of(change: TableChange, after: VoterTable) -> dict[str, int]:
    counters: dict[str, int] = {LOG_END_OFFSET: after.log.end_offset}
    if change.quorum_epoch is not None:
        counters[QUORUM_EPOCH] = change.quorum_epoch
    if change.vote is not None:
        counters[f"{VOTE}{change.vote}"] = after.quorum_epoch
    if change.leader is not None:
        counters[f"{LEADER}{change.leader}"] = after.quorum_epoch
    return counters


FILE_NAME: Final = re.compile(r"[0-9]{20}-[0-9a-f]{32}\.parquet")
"""The name of a file of the log."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the table: where its rows stand in the log.

    Attributes:
        batches: The headers of its batches, oldest first, those of merged ones as runs. A no-op is
            not told from a decision here: that takes the batch before it.
    """

    base_offset: Offset
    record_count: int
    path: str
    size_bytes: int
    time_ms: int
    batches: tuple[RaftBatch, ...]
    file_count: ClassVar[int] = 1

    def __post_init__(self) -> None:
        # A name without a path: a file of the log lies in the table's own folder.
        if not FILE_NAME.fullmatch(self.path) or self.base_offset < 0 or self.record_count <= 0:
            raise CorruptLogError("not a file of the metadata log", path=self.path)
        size = self.batches[-1].end_offset - self.base_offset
        if self.batches[0].base_offset != self.base_offset or size != self.record_count:
            raise CorruptLogError("a file of the metadata log has other headers", path=self.path)

    @property
    def end_offset(self) -> Offset:
        return Offset(self.base_offset + self.record_count)

    def rows_between(self, start: int, end: int) -> range:
        return range(max(start - self.base_offset, 0), max(end - self.base_offset, 0))


def log_files(files: Iterable[FileEntry]) -> list[LogFile]:
    with parsing("the metadata table's list of files"):
        return sorted(map(log_file, files), key=lambda file: file.base_offset)


def log_file(file: FileEntry) -> LogFile:
    base_offset, size = Offset(int(file.values["base_offset"] or "")), file.record_count or 0
    return LogFile(
        base_offset=base_offset,
        record_count=size,
        path=file.path,
        size_bytes=file.size_bytes,
        time_ms=file.time_ms,
        batches=_headers(file.values, base_offset, Offset(base_offset + max(size, 1))),
    )


def _headers(
    values: Mapping[str, str | None], base_offset: Offset, end_offset: Offset
) -> tuple[RaftBatch, ...]:
    texts = values["headers"]
    if texts is None:
        epoch = QuorumEpoch(int(values["epoch"] or ""))
        return (RaftBatch(base_offset, end_offset, epoch, values["write_id"] or ""),)
    batches = []
    for each in json.loads(texts):
        batches.append(
            RaftBatch(
                base_offset,
                Offset(int(each["end_offset"])),
                QuorumEpoch(int(each["epoch"])),
                str(each["write_id"]),
                BatchKind.RUN if each["is_run"] else BatchKind.DECISION,
                voters_of(each["voters"]),
            )
        )
        base_offset = batches[-1].end_offset
    return tuple(batches)


def voters_of(texts: Sequence[str] | None) -> VoterSet | None:
    """Return the voters that a header or a record names; None: it names none."""
    return None if texts is None else VoterSet.of(map(Voter.parse, texts))


def raft_log_of(files: Sequence[LogFile]) -> RaftLog:
    try:
        return log_of(batch for file in files for batch in file.batches)
    except ImpossibleValueError as error:
        raise CorruptLogError(f"a gap in the metadata log: {error}") from error


def new_id() -> str:
    """Return an id that nothing else has: of a write, or in the name of a file."""
    return uuid4().hex


def write_file(
    files: RootFiles, uri: str, batches: Sequence[RaftBatch], content: pa.Buffer, time_ms: int
) -> LogFile:
    """Write a file under a name of its own; return it, to be added to the table at `uri`."""
    base_offset, end_offset = batches[0].base_offset, batches[-1].end_offset
    path = f"{base_offset:020d}-{new_id()}.parquet"
    files.write(f"{uri}/{path}", content)
    size = end_offset - base_offset
    return LogFile(base_offset, size, path, content.size, time_ms, tuple(batches))


def entry_of(file: LogFile, *, changes_data: bool = True) -> FileEntry:
    """Return what a commit says of a file. `changes_data`: False in a merge's commit."""
    return FileEntry(
        path=file.path,
        size_bytes=file.size_bytes,
        values=_partition_values(file.batches),
        time_ms=file.time_ms,
        record_count=file.record_count,
        changes_data=changes_data,
    )


def _partition_values(batches: Sequence[RaftBatch]) -> dict[str, str | None]:
    (first, *others), last = batches, batches[-1]
    headers = None
    if others or first.kind is BatchKind.RUN or first.voters is not None:
        headers = json.dumps(
            [
                {
                    "end_offset": each.end_offset,
                    "epoch": each.epoch,
                    "write_id": each.write_id,
                    "is_run": each.kind is BatchKind.RUN,
                    "voters": None if each.voters is None else [*map(str, each.voters.voters)],
                }
                for each in batches
            ],
            separators=(",", ":"),
        )
    return {
        "base_offset": str(first.base_offset),
        "epoch": str(last.epoch),
        "write_id": last.write_id,
        "headers": headers,
    }


# Rows.

ALL_ROWS: Final = range(ROWS_MAX)
"""Of a file, whatever it holds."""

SLICE_ROWS: Final = 1 << 16
"""Rows converted at once between Python objects and Arrow: a million would take gigabytes."""

ENCODED_ROWS_MIN: Final = 1 << 12
"""From this number on, texts are read by a dictionary; for fewer, its import takes longer."""

PLAIN_ROWS_MAX: Final = 32
"""Up to this number of rows a file is written without compression and dictionaries: to set these up
for each column would take two thirds of the time to write and to read a file of one row."""

_COUNTED: Final = ("offset_delta", "batch_base_offset", "time")

_MERGED: Final[Mapping[str, Any]] = {
    "compression": "zstd",
    "use_dictionary": [name for name in FILE_SCHEMA.names if name not in _COUNTED],
    "column_encoding": dict.fromkeys(_COUNTED, "DELTA_BINARY_PACKED"),
    "write_page_checksum": True,
    "store_schema": False,
    "write_statistics": False,
}

_PLAIN: Final[Mapping[str, Any]] = {
    **_MERGED,
    "compression": "none",
    "use_dictionary": False,
    "column_encoding": None,
}

_CLAIM: Final = ControllerRecord.__name__

_EMPTY: Final = np.empty(0, np.int64)

# Where a record stands; never null.
_POSITION_COLUMNS: Final = frozenset({"offset_delta", "batch_base_offset"})

# A schema creates its fields again on each access.
_COLUMN_TYPES: Final[Mapping[str, pa.DataType]] = {field.name: field.type for field in FILE_SCHEMA}

# Of a whole batch, not of a record.
_BATCH_COLUMNS: Final = frozenset({"offset_delta", "batch_base_offset", "time"})

# What one row says of its whole batch.
_STAMP_COLUMNS: Final = (
    "batch_base_offset",
    "time",
    "controller_id",
    "controller_epoch",
    "application_id",
)


def encode_file(records: Sequence[Record], stamp: Stamp, base_offset: int) -> pa.Buffer:
    tables = []
    for start in range(0, len(records), SLICE_ROWS):
        run = records[start : start + SLICE_ROWS]
        columns = {
            "offset_delta": pa.array(np.arange(start, start + len(run), dtype=np.int32)),
            "batch_base_offset": pa.array(np.full(len(run), base_offset, np.int64)),
        }
        for name, values in encode(run, stamp).items():
            if values is not None:
                columns[name] = pa.array(values, _COLUMN_TYPES[name])
        tables.append(pa.table(columns))
    return _write(pa.concat_tables(tables, promote_options="default"))


def _write(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    is_plain = table.num_rows <= PLAIN_ROWS_MAX
    pq.write_table(table, sink, **(_PLAIN if is_plain else _MERGED))
    return sink.getvalue()


def decode_file(
    content: bytes | None,
    path: str,
    *,
    from_offset: int = 0,
    end_offset: int | None = None,
    wanted: range = ALL_ROWS,
) -> list[MetadataBatch]:
    """Return the batches of a file that lie between two offsets, in order. A merged file may hold
    many others: of a row group they are read, which is cheap, and not made. Row groups without
    `wanted` rows are not read."""
    parts = decode_parts(content, path, from_offset, end_offset, wanted)
    return [batch for part in parts for batch in part]


def decode_parts(
    content: bytes | None,
    path: str,
    from_offset: int = 0,
    end_offset: int | None = None,
    wanted: range = ALL_ROWS,
) -> Iterator[list[MetadataBatch]]:
    """Yield the same, the batches of a row group at once; raise perhaps after some batches."""
    with parsing("a file of the metadata log", path):
        for part in _parts(content, path, wanted=wanted):
            yield _decoded(part, _batch_ranges(part, from_offset, end_offset))


def decode_rows(content: bytes | None, path: str) -> Iterator[list[Row]]:
    """Yield the rows of a file by batch, in order, unchecked; `time` in µs, lists as tuples."""
    with parsing("a file of the metadata log", path):
        for part in _parts(content, path):
            rows = [row for each in _slices(part) for row in _rows_of(each)]
            yield from (rows[each.start : each.stop] for each in _batch_ranges(part))


def decode_tables(
    content: bytes | None, path: str, row_count: int | None = None, wanted: range = ALL_ROWS
) -> Iterator[pa.Table]:
    """Yield the rows of a file in order, verified, as they are, whole batches at once: no record is
    made, and a column that has no value may be left out.

    `row_count`: how many there must be. Row groups without `wanted` rows are not read."""
    with parsing("a file of the metadata log", path):
        yield from _parts(content, path, row_count, wanted)


def first_row(part: pa.Table) -> int:
    return int(_as_numpy(part.column("offset_delta").slice(0, 1).combine_chunks())[0])


class BatchPlace(NamedTuple):
    """Where a batch begins and ends, and when it was committed (ms)."""

    base_offset: Offset
    end_offset: Offset
    time_ms: int


def batch_places(content: bytes | None, path: str) -> list[BatchPlace]:
    """Return the places of a file's batches, in order: all of it is read and verified, and no
    record is made, which for the largest file would take seconds."""
    found: list[BatchPlace] = []
    with parsing("a file of the metadata log", path):
        for part in _parts(content, path):
            bases, times_us = _bases(part), _as_numpy(part.column("time").combine_chunks())
            for rows in _batch_ranges(part):
                base, time_ms = int(bases[rows.start]), int(times_us[rows.start]) // 1000
                found.append(BatchPlace(Offset(base), Offset(base + len(rows)), time_ms))
    return found


def last_time_ms(rows: pa.Table) -> int:
    """Return when the last of some rows was committed."""
    last = rows.column("time").slice(rows.num_rows - 1).combine_chunks()
    return int(_as_numpy(last)[0]) // 1000


def expired_rows(rows: pa.Table) -> bool:
    return ExpiredRecord.__name__ in rows.column("record_type").to_pylist()


def _decoded(table: pa.Table, batches: Sequence[range]) -> list[MetadataBatch]:
    """Return the batches of a file that stand in these rows of it.

    Columns are converted for all of them together: a merged file has tens of thousands of batches,
    and a batch on its own takes most of a millisecond, which is half a minute in all.
    """
    if not batches:
        return []
    names = table.column_names
    stamps = table.select([name for name in _STAMP_COLUMNS if name in names])
    heads = pa.concat_tables([stamps.slice(row, 1) for row in _stamp_rows(table, batches)])
    first = batches[0].start
    places = table.slice(first, batches[-1].stop - first)
    places = places.select([name for name in names if name not in _BATCH_COLUMNS])
    shared: dict[str, Memo[Any, Any]] = {}
    records: list[Record] = []
    for rows in _slices(places):
        records += decode_columns(_columns_of(rows), rows.num_rows, shared)
    return [
        MetadataBatch(
            base_offset=Offset(head["batch_base_offset"]),
            stamp=decode_stamp(head),
            records=tuple(records[each.start - first : each.stop - first]),
        )
        for each, head in zip(batches, _rows_of(heads), strict=True)
    ]


def _stamp_rows(table: pa.Table, batches: Sequence[range]) -> list[int]:
    """Return of each batch a row that has its stamp. A ControllerRecord has a controller of its own
    there, so it tells only where the batch has nothing else: its row is then the same anyway."""
    kinds = table.column("record_type").combine_chunks()
    return [
        next((row for row in each if kinds.slice(row, 1).to_pylist() != [_CLAIM]), each.start)
        for each in batches
    ]


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, SLICE_ROWS):
        yield table.slice(start, SLICE_ROWS)


def _batch_ranges(
    table: pa.Table, from_offset: int = 0, end_offset: int | None = None
) -> list[range]:
    """Return which rows are a batch each, of the batches between two offsets, in offset order."""
    bases = _bases(table)
    starts = [0, *(np.flatnonzero(bases[1:] != bases[:-1]) + 1).tolist(), table.num_rows]
    return [
        range(start, end)
        for (start, end), base in zip(pairwise(starts), bases[starts[:-1]].tolist(), strict=True)
        if base >= from_offset and (end_offset is None or base + end - start <= end_offset)
    ]


def _bases(table: pa.Table) -> npt.NDArray[np.signedinteger[Any]]:
    return _as_numpy(table.column("batch_base_offset").combine_chunks())


def _parts(
    content: bytes | None, path: str, row_count: int | None = None, wanted: range = ALL_ROWS
) -> Iterator[pa.Table]:
    """Yield a file's rows in offset order, a row group at a time; a batch is never parted."""
    if not content:
        raise CorruptLogError("a file of the metadata log is missing", path=path)
    held: pa.Table | None = None
    for group in read_row_groups(content, path, row_count, wanted):
        part = _checked(group, path)
        if held is not None:
            if _bases(held)[-1] == _bases(part)[0]:
                part = pa.concat_tables([held, part])
            else:
                yield held
        held = part
    if held is not None:
        yield held
    elif wanted == ALL_ROWS:
        raise CorruptLogError("not a file of a metadata log", path=path)


def _checked(table: pa.Table, path: str) -> pa.Table:
    # Only pages have checksums: a damaged name in the footer would read as a column left out.
    columns = dict(zip(table.column_names, table.columns, strict=True))
    is_ours = all(_COLUMN_TYPES.get(name) == each.type for name, each in columns.items())
    has_places = not any(columns[name].null_count for name in _POSITION_COLUMNS if name in columns)
    if table.num_rows == 0 or "batch_base_offset" not in columns or not (is_ours and has_places):
        raise CorruptLogError("not a file of a metadata log", path=path)
    return table if _is_in_order(table) else table.sort_by("offset_delta")


def _is_in_order(table: pa.Table) -> bool:
    if "offset_delta" not in table.column_names or table.num_rows < 2:
        return True
    deltas = _as_numpy(table.column("offset_delta").combine_chunks())
    return bool((deltas[1:] > deltas[:-1]).all())


def _columns_of(table: pa.Table) -> dict[str, list[Any] | None]:
    """Return a table's columns, `time` as µs since 1970 UTC; None: left out, all null."""
    columns: dict[str, list[Any] | None] = dict.fromkeys(_COLUMN_TYPES)
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        columns[name] = _values_of(values, _COLUMN_TYPES[name])
    return columns


def _values_of(values: pa.Array, kind: pa.DataType) -> list[Any]:
    """Return a column's values; equal texts are one object, lists are tuples."""
    if pa.types.is_list(kind):
        return _tuples_of(values, kind.value_type)
    if pa.types.is_string(kind):
        return _texts_of(values)
    if pa.types.is_timestamp(kind):
        values = values.view(pa.int64())
    # The same ints in a tenth of the time of to_pylist, which creates a scalar for each value.
    whole: list[Any] = values.to_pylist() if values.null_count else _as_numpy(values).tolist()
    return whole


def _texts_of(values: pa.Array) -> list[str | None]:
    if len(values) < ENCODED_ROWS_MIN:
        known: dict[str | None, str | None] = {}
        return [known.setdefault(each, each) for each in values.to_pylist()]
    encoded = values.dictionary_encode(null_encoding="encode")
    texts = encoded.dictionary.to_pylist()
    return list(map(texts.__getitem__, _as_numpy(encoded.indices).tolist()))


def _tuples_of(values: pa.Array, kind: pa.DataType) -> list[tuple[Any, ...] | None]:
    offsets = _as_numpy(values.offsets)
    sizes = np.diff(offsets)
    # The offsets of a slice begin in the middle.
    first = int(offsets[0])
    flat = _values_of(values.values.slice(first, int(offsets[-1]) - first), kind)
    if values.null_count == 0 and (sizes == sizes[0]).all():
        size = int(sizes[0])
        return list(zip(*[iter(flat)] * size, strict=True)) if size else [()] * len(values)
    places = (offsets - first).tolist()
    return [
        tuple(flat[start:end]) if is_there else None
        for (start, end), is_there in zip(pairwise(places), _are_not_null(values), strict=True)
    ]


def _as_numpy(values: pa.Array) -> npt.NDArray[np.signedinteger[Any]]:
    size = values.type.bit_width // 8
    _, numbers = values.buffers()
    start = values.offset * size
    return np.frombuffer(numbers, f"<i{size}", len(values), start) if len(values) else _EMPTY


def _are_not_null(values: pa.Array) -> list[bool]:
    bits, *_ = values.buffers()
    if bits is None:
        return [True] * len(values)
    flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little").astype(bool)
    there: list[bool] = flags[values.offset : values.offset + len(values)].tolist()
    return there


def _rows_of(table: pa.Table) -> list[Row]:
    return rows_of(_columns_of(table), table.num_rows)


def rows_of(columns: Columns, count: int) -> list[Row]:
    given = [values or [None] * count for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*given, strict=True)]


def merge_files(
    contents: Iterable[tuple[bytes | None, str]], *, expires: bool = False
) -> tuple[pa.Buffer, int]:
    """Return the rows of several files (bytes and path, in offset order) as the bytes of one file,
    and the number of rows. The files are read one after the other. `expires`: each as an
    `ExpiredRecord`."""
    return encode_rows(
        _expired(part) if expires else part
        for content, path in contents
        for part in decode_tables(content, path)
    )


def encode_rows(parts: Iterable[pa.Table]) -> tuple[pa.Buffer, int]:
    """Return rows, whole batches at once, as the bytes of one file, and the number of rows. Many
    are written as they come: a row group holds whole batches."""
    sink, writer = pa.BufferOutputStream(), None
    held: list[pa.Table] = []
    count = held_count = 0
    for part in parts:
        deltas = np.arange(count, count + part.num_rows, dtype=np.int32)
        place = part.column_names.index("offset_delta")  # in the file that they are merged into
        held.append(part.set_column(place, "offset_delta", pa.array(deltas)))
        count, held_count = count + part.num_rows, held_count + part.num_rows
        if held_count >= SLICE_ROWS:
            writer = writer or pq.ParquetWriter(sink, FILE_SCHEMA, **_MERGED)
            _write_group(writer, held)
            held, held_count = [], 0
    if not count:
        raise CorruptLogError("rows of the metadata log are missing")
    if writer is None:
        return _write(pa.concat_tables(held, promote_options="default")), count
    if held:
        _write_group(writer, held)
    writer.close()
    return sink.getvalue(), count


def _expired(table: pa.Table) -> pa.Table:
    places = table.select(["offset_delta", "batch_base_offset", "time"])
    return places.append_column("record_type", pa.repeat(ExpiredRecord.__name__, table.num_rows))


def _write_group(writer: pq.ParquetWriter, tables: Sequence[pa.Table]) -> None:
    whole = pa.concat_tables([FILE_SCHEMA.empty_table(), *tables], promote_options="default")
    writer.write_table(whole, row_group_size=whole.num_rows)
