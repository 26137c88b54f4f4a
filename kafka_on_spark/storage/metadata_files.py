"""Files of the metadata log: rows of typed columns, one commit's batch or several merged.

A column without a value in a file is left out of it: Delta reads it as null, and a commit of a
few records writes a few columns and not forty.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.codec import COLUMNS, decode, decode_stamp, encode
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp

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
"""`batch_base_offset` is where the record's batch begins: decisions stay apart in merged files."""


def encode_file(records: Sequence[Record], stamp: Stamp, base_offset: int) -> pa.Buffer:
    """Return one batch as the bytes of a file."""
    count = len(records)
    columns = {
        "offset_delta": pa.array(range(count), pa.int32()),
        "batch_base_offset": pa.repeat(pa.scalar(base_offset, pa.int64()), count),
    }
    for name, values in encode(records, stamp).items():
        if values is not None:
            columns[name] = pa.array(values, FILE_SCHEMA.field(name).type)
    return _write(pa.table(columns))


def _write(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        write_page_checksum=True,
        store_schema=False,
        write_statistics=False,
    )
    return sink.getvalue()


def decode_file(content: bytes | None, path: str) -> list[MetadataBatch]:
    """Return the batches of a file, in order.

    Raises:
        CorruptLogError: It is missing, damaged, or holds what this version can't read.
    """
    return [_batch(rows) for rows in decode_rows(content, path)]


def decode_rows(content: bytes | None, path: str) -> list[list[dict[str, Any]]]:
    """Return the rows of a file by batch, in order, whatever they say; `time` in µs.

    Raises:
        CorruptLogError: It is missing or damaged.
    """
    rows = _rows_of(_read(content, path))
    return [list(group) for _, group in groupby(rows, lambda row: row["batch_base_offset"])]


def batch_times(content: bytes | None, path: str) -> list[tuple[Offset, int]]:
    """Return where each batch of a file begins and when it was committed (ms), in order.

    Raises:
        CorruptLogError: The file is missing or damaged.
    """
    table = _read(content, path).sort_by("offset_delta")
    bases = table.column("batch_base_offset").to_pylist()
    times = table.column("time").cast(FILE_SCHEMA.field("time").type).cast(pa.int64())
    found: dict[int, int] = {}
    for base, time_us in zip(bases, times.to_pylist(), strict=True):
        found.setdefault(base, time_us // 1000)
    return [(Offset(base), time_ms) for base, time_ms in found.items()]


def _batch(rows: list[dict[str, Any]]) -> MetadataBatch:
    return MetadataBatch(
        base_offset=Offset(rows[0]["batch_base_offset"]),
        stamp=decode_stamp(rows[0]),
        records=tuple(decode(row) for row in rows),
    )


def _read(content: bytes | None, path: str) -> pa.Table:
    if not content:
        raise CorruptLogError("a file of the metadata log is missing", path=path)
    try:
        table = pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptLogError(
            f"a file of the metadata log can't be read: {error}", path=path
        ) from error
    # Only pages have checksums: a damaged name in the footer would read as a column left out.
    is_ours = all(
        each.name in FILE_SCHEMA.names and each.type == FILE_SCHEMA.field(each.name).type
        for each in table.schema
    )
    if table.num_rows == 0 or "batch_base_offset" not in table.column_names or not is_ours:
        raise CorruptLogError("not a file of a metadata log", path=path)
    return table


def _rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return a file's rows in offset order, `time` as µs since 1970 UTC, left-out columns null."""
    if table.num_rows > 1:
        table = table.sort_by("offset_delta")
    present = set(table.column_names)
    columns = []
    for field in FILE_SCHEMA:
        if field.name not in present:
            columns.append([None] * table.num_rows)
        elif field.name == "time":
            columns.append(table.column("time").cast(field.type).cast(pa.int64()).to_pylist())
        else:
            columns.append(table.column(field.name).to_pylist())
    return [dict(zip(FILE_SCHEMA.names, row, strict=True)) for row in zip(*columns, strict=True)]


def merge_files(contents: Sequence[tuple[bytes | None, str]]) -> tuple[pa.Buffer, int]:
    """Return the rows of several files (bytes and path, in offset order) as one file's bytes, and
    how many they are.

    Raises:
        CorruptLogError: One of them can't be read.
    """
    tables = [_read(content, path).sort_by("offset_delta") for content, path in contents]
    merged = pa.concat_tables(tables, promote_options="default")
    place = merged.column_names.index("offset_delta")
    deltas = pa.array(range(merged.num_rows), pa.int32())
    return _write(merged.set_column(place, "offset_delta", deltas)), merged.num_rows
