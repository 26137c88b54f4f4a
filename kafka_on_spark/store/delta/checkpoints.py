"""Writes checkpoints of our tables, and reads them; one that can't be read is passed over.

A checkpoint is written from the state that this process has of the table, whose commits it has
counted and so flushed: a checkpoint of an unflushed commit could outlive it and fork the table.
What the state lacks, the table's metadata and older tombstones, is taken from the checkpoint
before. Source: Delta's protocol, "Checkpoints" and "Last checkpoint file".

It is flushed before it gets its name, so a power cut leaves it whole or not at all. So many stay
that damage to some of them closes no table, and `fsck` finds it.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.store.delta.delta_files import (
    BAD_JSON,
    PROTOCOL,
    TableCheckpoint,
    TableDamage,
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
)
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.roots import RootFiles

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
    metadata, tombstones = before(files, uri, checkpoints_in(names))
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


def before(
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
    with suppress(UnsafeFileError, *BAD_JSON):
        content = files.read(commit_path(uri, 0), COMMIT_BYTES_MAX) or b""
        for line in content.splitlines():
            if (found := parse_json(line).get("metaData")) is not None:
                return found, {}
    raise CorruptLogError("neither a checkpoint nor the first commit can be read", path=uri)


ReadFile = Callable[[str, int], bytes | None]
"""Returns a file's bytes, of so many at most; None: there is none."""


def read_checkpoint(read: ReadFile, uri: str, version: int) -> TableStep | None:
    """Return what a checkpoint says, or that it can't be read; None: there is none."""
    path = checkpoint_path(uri, version)
    try:
        content = read(path, CHECKPOINT_BYTES_MAX)
    except UnsafeFileError as error:
        return TableDamage(version=version, sentence=error.message, is_checkpoint=True)
    return None if content is None else checkpoint_step(content, version, path)


def newest_checkpoint(read: ReadFile, uri: str, versions: Iterable[int]) -> TableCheckpoint | None:
    """Return the newest checkpoint that can be read. None: there is none, and the table can be
    opened only if its first commit is still there."""
    for version in sorted(versions, reverse=True):
        step = read_checkpoint(read, uri, version)
        if isinstance(step, TableCheckpoint):
            return step
        if isinstance(step, TableDamage):
            log.warning("%s; it is passed over", step.sentence)
    return None
