"""Writes a view as a Delta table of one version, whose files lie in the replicas' folders.

Delta's protocol lets a log name files by absolute URL, as shallow clones do. So a topic is one
table, whatever its number of partitions, and Delta itself prunes columns, partitions and files.
delta-rs can't write such a log. This table is no replica, and its one commit is a file that no
other process writes, so the rule that only delta-rs commits to our tables still holds.
"""

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.replica_folders import replica_folder
from kafka_on_spark.log.replica_headers import iso
from kafka_on_spark.log.view_plan import FindSize, ViewFile
from kafka_on_spark.store.deadlines import short_call_seconds, within
from kafka_on_spark.store.error_translation import reason
from kafka_on_spark.store.local_changes import make_folder
from kafka_on_spark.store.requests import count_request
from kafka_on_spark.store.roots import RootFiles, StorageOptions, filesystem, is_local

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
    folder: str, files: Iterable[ViewFile], options: StorageOptions, *, now_ms: int
) -> str:
    """Write the Delta log of a view into a new folder (normalized); return the URL of its commit.

    Raises:
        KafkaStorageError: It can't be written.
    """
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": _metadata(now_ms)},
        *({"add": _add(each)} for each in files),
    ]
    log = f"{folder}/_delta_log"
    if is_local(folder):
        try:
            within(folder, partial(_create_folders, folder, log), short_call_seconds(folder))
        except OSError as error:
            raise KafkaStorageError(f"can't create {log}: {reason(error)}") from error
    content = "\n".join(json.dumps(each) for each in actions).encode()
    RootFiles(folder, options).write(f"{log}/{0:020}.json", content, is_flushed=False)
    return f"{log}/{0:020}.json"


def _create_folders(folder: str, log: str) -> None:
    # Never the metadata root: one that was removed must not be created again. A local session's
    # temporary folder is there already; no other process uses this view's log.
    make_folder(os.path.dirname(folder))
    make_folder(folder)
    if not make_folder(log):
        raise FileExistsError(f"there is {log}")


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


def _add(file: ViewFile) -> dict[str, Any]:
    segment = file.segment
    # For each column in a view's own conditions: Delta does not prune a file that lacks the
    # statistics of a column in the condition.
    stats: dict[str, Any] = {"numRecords": segment.record_count, "nullCount": {"offset_delta": 0}}
    if file.common_timestamp_us is None:  # else the log's are not those of the file's column
        stats["minValues"] = {"timestamp": iso(segment.timestamp_min_us)}
        stats["maxValues"] = {"timestamp": iso(segment.timestamp_max_us)}
        stats["nullCount"]["timestamp"] = 0
    values = {
        "partition": str(file.partition),
        "base_offset": str(file.base_offset),
        "first_delta": str(file.first_delta),
        "end_delta": str(file.end_delta),
        "append_time": None if file.common_timestamp_us is None else iso(file.common_timestamp_us),
        "has_append_time": str(file.has_append_time).lower(),
        "is_cut": str(file.is_cut).lower(),
    }
    return {
        "path": hadoop_url(url_of(file)),
        "partitionValues": values,
        "size": segment.size_bytes,
        "modificationTime": file.appended_at_ms,
        "dataChange": True,
        "stats": json.dumps(stats),
    }


def url_of(file: ViewFile) -> str:
    """Return the URL (normalized) of a view's file."""
    return f"{replica_folder(file.address)}/{file.segment.file_name}"


def hadoop_url(url: str) -> str:
    """Return a normalized URL as Hadoop's file systems take it, encoded."""
    if is_local(url):
        return f"file://{quote(url)}"
    parts = urlsplit(url)
    return f"{_HADOOP_SCHEMES.get(parts.scheme, parts.scheme)}://{parts.netloc}{quote(parts.path)}"


def size_finder(options: StorageOptions) -> FindSize:
    """Return a function that finds the sizes of replicas' files; it lists each folder once."""

    @cache
    def sizes(root: str, folder: str) -> Mapping[str, int]:
        return file_sizes(root, folder, options)

    def find_size(address: ReplicaAddress, name: str) -> int | None:
        return sizes(address.root, replica_folder(address)).get(name)

    return find_size


def _local_sizes(folder: str) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {each.name: each.stat().st_size for each in entries}


def file_sizes(root: str, folder: str, options: StorageOptions) -> dict[str, int]:
    """Return the files of a folder and their sizes; none if there is no such folder.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    # A store's client raises its own errors, which are no OSErrors.
    kinds = OSError if is_local(folder) else Exception
    count_request("LIST", folder)
    try:
        if is_local(folder):
            return within(root, partial(_local_sizes, folder), short_call_seconds(root))
        found = filesystem(folder, options).ls(folder, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except kinds as error:
        raise KafkaStorageError(
            f"can't list {folder}: {reason(error, options)}"
        ) from options.shown(error)
    return {each["name"].rsplit("/", 1)[-1]: each["size"] or 0 for each in found}
