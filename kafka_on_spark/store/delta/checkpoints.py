"""Writes checkpoints of our tables, reads them, and passes over those that can't be read.

A checkpoint is written from the state that this process has of the table, whose commits it has
counted and so flushed: a checkpoint of an unflushed commit could outlive it and fork the table.
What the state lacks, the table's metadata and older tombstones, is taken from the checkpoint
before. Source: Delta's protocol, "Checkpoints" and "Last checkpoint file".

A power cut may keep a checkpoint's name or size and lose its bytes. Delta readers skip an empty
checkpoint and no other, and a cleaner would count it among those that a table can be opened from.
So one that can't be read gets another name; its bytes stay.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.store.deadlines import SHORT, within
from kafka_on_spark.store.delta.delta_files import (
    BAD_JSON,
    PROTOCOL,
    UNREADABLE_SUFFIX,
    TableState,
    TableStep,
    checkpoint_path,
    checkpoint_step,
    checkpoints_in,
    commit_path,
    commits_in,
    hint_path,
    last_checkpoint,
    log_folder,
    values_in,
)
from kafka_on_spark.store.local_files import (
    CHECKPOINT_BYTES_MAX,
    COMMIT_BYTES_MAX,
    UnsafeFileError,
    rename,
)
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.roots import RootFiles, is_local

log = logging.getLogger(__name__)

CHECKPOINT_INTERVAL: Final = 100
"""Commits between checkpoints: whoever commits a version divisible by it writes one."""


_TEXTS: Final = pa.map_(pa.string(), pa.string())
_KINDS: Final[Mapping[str, pa.DataType]] = {
    "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
    "metaData": pa.struct(
        {
            "id": pa.string(),
            "name": pa.string(),
            "description": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
            "schemaString": pa.string(),
            "partitionColumns": pa.list_(pa.string()),
            "createdTime": pa.int64(),
            "configuration": _TEXTS,
        }
    ),
    "txn": pa.struct({"appId": pa.string(), "version": pa.int64()}),
    "add": pa.struct(
        {
            "path": pa.string(),
            "partitionValues": _TEXTS,
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "stats": pa.string(),
        }
    ),
    "remove": pa.struct(
        {"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_()}
    ),
}
"""The actions in a checkpoint, a column each: as many of the protocol's fields as ours have."""


def write_checkpoint(files: RootFiles, uri: str, state: TableState, now_ms: int) -> None:
    """Write the checkpoint of a state whose commits are flushed, and then the hint at it.

    Raises:
        CorruptLogError: Neither a checkpoint nor the first commit tells the table's metadata, or
            nobody could read the checkpoint for its size.
        KafkaStorageError: The root does not answer, or has another table by now: it was removed,
            or went back.
    """
    names = files.names(log_folder(uri))
    if state.version not in commits_in(names):
        raise KafkaStorageError(f"the commit {state.version} of {uri} is not there any more")
    metadata, tombstones = _before(files, uri, checkpoints_in(names))
    tombstones = state.lasting(tombstones | state.tombstones, now_ms)
    reader, writer = PROTOCOL
    rows: dict[str, list[Any]] = {
        "protocol": [{"minReaderVersion": reader, "minWriterVersion": writer}],
        "metaData": [metadata],
        "txn": [{"appId": name, "version": each} for name, each in sorted(state.counters.items())],
        "add": [each.action(now_ms)["add"] for each in state.files.values()],
        "remove": [
            {"path": path, "deletionTimestamp": time_ms, "dataChange": True}
            for path, time_ms in tombstones.items()
            if path not in state.files
        ],
    }
    content = _encode(rows)
    if len(content) > CHECKPOINT_BYTES_MAX:  # no commit may go that only this would sum up
        raise CorruptLogError(f"a checkpoint would have {len(content)} bytes", path=uri)
    hint = {
        "version": state.version,
        "size": sum(map(len, rows.values())),
        "sizeInBytes": len(content),
        "numOfAddFiles": len(state.files),
    }
    files.write(checkpoint_path(uri, state.version), content)
    # Not the hint before the checkpoint: some engines open no table with one that misleads.
    files.flush([log_folder(uri)])
    # A process that was frozen before its write: others have gone on, and cleaned.
    if last_checkpoint(files, uri) < state.version:
        files.write(hint_path(uri), json.dumps(hint).encode())


def _encode(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> pa.Buffer:
    """Return a Parquet file with a row for each action, in which the other columns are null."""
    above, below = 0, sum(map(len, rows.values()))
    columns = {}
    for name, actions in rows.items():
        kind = _KINDS[name]
        below -= len(actions)
        columns[name] = pa.chunked_array(
            [pa.nulls(above, kind), pa.array(actions, kind), pa.nulls(below, kind)]
        )
        above += len(actions)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _before(
    files: RootFiles, uri: str, checkpoints: Iterable[int]
) -> tuple[Mapping[str, Any], dict[str, int]]:
    """Return the table's metadata and the tombstones by the newest checkpoint that can be read; by
    the first commit, which has no tombstones, if there is none."""
    for version in sorted(checkpoints, reverse=True):
        path = checkpoint_path(uri, version)
        with suppress(UnsafeFileError, CorruptLogError, *BAD_JSON):
            content = files.read(path, CHECKPOINT_BYTES_MAX) or b""
            table = read_parquet(content, path, columns=["metaData", "remove"])
            [metadata] = values_in(table.column("metaData"))
            removes = values_in(table.column("remove"))
            return metadata, {each["path"]: each["deletionTimestamp"] for each in removes}
    content = files.read(commit_path(uri, 0), COMMIT_BYTES_MAX) or b""
    for line in content.splitlines():
        if (found := parse_json(line).get("metaData")) is not None:
            return found, {}
    raise CorruptLogError("neither a checkpoint nor the first commit can be read", path=uri)


def _whole(files: RootFiles, path: str) -> bytes | None:
    """Return a checkpoint's bytes; None if it is not there, or not known to be all of it.

    A store's answer may be cut off, or be of an object that was replaced meanwhile.
    """
    found = files.read_stamped(path, CHECKPOINT_BYTES_MAX)
    if found is None or len(found[0]) != files.size(path) or [found[1]] != files.stamps([path]):
        return None
    return found[0]


def read_checkpoint(files: RootFiles, uri: str, version: int) -> TableStep:
    path = checkpoint_path(uri, version)
    try:
        content = files.read(path, CHECKPOINT_BYTES_MAX)
    except UnsafeFileError as error:
        log.warning("the checkpoint %s is passed over: %s", path, error.message)
        content = None
    return checkpoint_step(content, version, path)


def rename_unreadable(files: RootFiles, uri: str, version: int) -> None:
    path = checkpoint_path(uri, version)
    # A process that may only read leaves it to others.
    with suppress(OSError, KafkaStorageError):
        try:
            content = _whole(files, path)
        except UnsafeFileError:
            if not is_local(uri):
                return  # larger than can be copied
            content = b""
        if content is not None and not _is_readable(content, path):
            log.warning("the checkpoint %s can't be read, and is passed over", path)
            _set_aside(files, uri, path, content)


def _set_aside(files: RootFiles, uri: str, path: str, content: bytes) -> None:
    """Give a checkpoint another name. A store can't rename: its object's `content` is copied."""
    aside = path + UNREADABLE_SUFFIX
    if is_local(uri):
        within(uri, partial(rename, path, aside), SHORT)
    else:
        files.write(aside, content)
        files.delete_file(path)
    delete_misleading_hint(files, uri)


def delete_misleading_hint(files: RootFiles, uri: str) -> None:
    """Delete a hint at a checkpoint that is not there, or one that can't be read: delta-rs opens no
    table that has one.

    An older version of ours left such a hint behind a power cut: it flushed neither of the two.
    """
    with suppress(UnsafeFileError):  # not a file: no reader takes it for a hint
        if files.size(hint_path(uri)) is not None and last_checkpoint(files, uri) < 0:
            files.delete_file(hint_path(uri))


def _is_readable(content: bytes, path: str) -> bool:
    """Return whether bytes are a checkpoint's, as far as can be told."""
    try:
        read_parquet(content, path, columns=["add", "txn", "metaData", "protocol"])
    except CorruptLogError:
        return False
    except KafkaStorageError:  # too little memory to tell
        return True
    return True
