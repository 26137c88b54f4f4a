"""Writes a view as a Delta table of one version, whose files lie in the replicas' folders.

Delta's protocol lets a log name files by absolute URL, as shallow clones do. So a topic is one
table, whatever its number of partitions, and Delta itself prunes columns, partitions and files.
delta-rs can't write such a log. This table is no replica, and its one commit is a file that no
other process writes.

A view is planned as a read is: on the same orders, by the same proof, and with the same way from
one replica to the next. The plan never changes, so an engine that knows nothing of this package can
read the view for as long as the files exist.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.base.ids import given_micros
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.log.reading import FinishCompaction, Piece, read_pieces
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.store.delta.delta_files import iso
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local

IsWhole = Callable[[ReplicaAddress, Segment], bool]
"""Returns whether a replica's file is there, and as long as the log says."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of timestamps, µs since 1970 UTC, the end exclusive; None: no bound."""

    start_us: int | None = None
    end_us: int | None = None

    def has_any_of(self, segment: Segment) -> bool:
        ends_after_start = self.start_us is None or segment.timestamp_max_us >= self.start_us
        begins_before_end = self.end_us is None or segment.timestamp_min_us < self.end_us
        return ends_after_start and begins_before_end


def time_range(start: object, end: object) -> TimeRange:
    """Return the range between two moments; a value of another type sets no bound."""

    def micros(name: str, given: object) -> int | None:
        return given_micros(name, given) if isinstance(given, datetime) else None

    return TimeRange(micros("start", start), micros("end", end))


def files_of(
    order: ReadOrder,
    replicas: ReplicaStore,
    is_whole: IsWhole,
    times: TimeRange,
    finish_compaction: FinishCompaction | None = None,
) -> list[Piece]:
    """Return the files that hold an order's range and may have records of `times`, in order.

    A file that is missing, or not as long as the log says, is taken from another replica.
    `finish_compaction`: as in `read_pieces`.

    Raises:
        KafkaStorageError: No replica has the rest of the range; it names each one's error.
    """

    def file_of(piece: Piece) -> Iterator[Piece]:
        if not piece.segment.record_count or not times.has_any_of(piece.segment):
            return
        if not is_whole(piece.address, piece.segment):
            raise CorruptLogError("a segment is missing or cut short", path=piece.segment.file_name)
        yield piece

    return list(read_pieces(order, replicas, file_of, finish_compaction=finish_compaction))


@dataclass(frozen=True, slots=True, order=True)
class Branch:
    """A kind of files, which one query reads in one way: their records' timestamp is that of the
    append or their own, is in the file or not, and all of them are in the view or not."""

    has_append_time: bool = False
    has_common_time: bool = False
    is_cut: bool = False


def branches_of(files: Sequence[Piece]) -> list[Branch]:
    """Return the kinds of files in a view, at least one; most topics have one kind.

    So only the few files that need a condition on each row, and a column for it, pay for that.
    """
    found = {
        Branch(each.batch.has_append_time, each.batch.common_timestamp_us is not None, each.is_cut)
        for each in files
    }
    return sorted(found) or [Branch()]


_HEADERS: Final[Mapping[str, Any]] = {
    "type": "array",
    "containsNull": True,
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
}

_PARTITION_COLUMNS: Final[Mapping[str, Any]] = {
    "partition": "integer",
    "base_offset": "long",
    "first_delta": "integer",
    "end_delta": "integer",
    "append_time": "timestamp",
    "has_append_time": "boolean",
    "is_cut": "boolean",
}

_FILE_COLUMNS: Final[Mapping[str, Any]] = {
    "offset_delta": "integer",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": _HEADERS,
}

# Hadoop has another name for S3.
_HADOOP_SCHEMES: Final = {"s3": "s3a"}


def write_view_table(
    folder: str, files: Iterable[Piece], options: StorageOptions, *, now_ms: int
) -> str:
    """Write the Delta log of a view into a new folder (normalized); return its commit's URL."""
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": _metadata(now_ms)},
        *({"add": _add(each)} for each in files),
    ]
    log = f"{folder}/_delta_log"
    root = RootFiles(folder, options)
    # A local session's temporary folder is there already; no other process uses this view's log.
    if not root.make_folders([os.path.dirname(folder), folder, log]):
        raise KafkaStorageError(f"can't create {log}: it is there")
    content = "\n".join(json.dumps(each) for each in actions).encode()
    root.write(f"{log}/{0:020}.json", content, is_flushed=False)
    return f"{log}/{0:020}.json"


def _metadata(now_ms: int) -> dict[str, Any]:
    columns = {**_PARTITION_COLUMNS, **_FILE_COLUMNS}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(_PARTITION_COLUMNS),
        "configuration": {},
        "createdTime": now_ms,
    }


def _add(file: Piece) -> dict[str, Any]:
    segment, append_us = file.segment, file.batch.common_timestamp_us
    # For each column in a view's own conditions: Delta does not prune a file that lacks the
    # statistics of a column in the condition.
    stats: dict[str, Any] = {"numRecords": segment.record_count, "nullCount": {"offset_delta": 0}}
    if append_us is None:  # else the log's are not those of the file's column
        stats["minValues"] = {"timestamp": iso(segment.timestamp_min_us)}
        stats["maxValues"] = {"timestamp": iso(segment.timestamp_max_us)}
        stats["nullCount"]["timestamp"] = 0
    values = {
        "partition": str(file.partition),
        "base_offset": str(file.base_offset),
        "first_delta": str(file.first_delta),
        "end_delta": str(file.end_delta),
        "append_time": None if append_us is None else iso(append_us),
        "has_append_time": str(file.batch.has_append_time).lower(),
        "is_cut": str(file.is_cut).lower(),
    }
    return {
        "path": hadoop_url(url_of(file)),
        "partitionValues": values,
        "size": segment.size_bytes,
        "modificationTime": file.batch.appended_at_ms,
        "dataChange": True,
        "stats": json.dumps(stats),
    }


def url_of(file: Piece) -> str:
    return f"{file.address.folder}/{file.segment.file_name}"


def hadoop_url(url: str) -> str:
    """Return a normalized URL as Hadoop's file systems take it, encoded."""
    if is_local(url):
        return f"file://{quote(url)}"
    parts = urlsplit(url)
    return f"{_HADOOP_SCHEMES.get(parts.scheme, parts.scheme)}://{parts.netloc}{quote(parts.path)}"


def whole_files(options: StorageOptions) -> IsWhole:
    """Return what tells whole files; it lists each folder once."""

    @cache
    def sizes(address: ReplicaAddress) -> Mapping[str, int]:
        return RootFiles(address.root, options).sizes(address.folder)

    return lambda address, segment: sizes(address).get(segment.file_name) == segment.size_bytes
