"""Reads which files a table has removed, and when: its tombstones.

The newest checkpoint that can be read keeps those of some hours (`table_creation`), and the commits
after it have the rest. `TableState` does not hold them: only who cleans a folder asks.
"""

from collections.abc import Mapping
from typing import Any, Final

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.stored_json import parse_json
from kafka_on_spark.store.delta.delta_files import (
    checkpoint_path,
    checkpoints_in,
    commit_path,
    commits_in,
    log_folder,
)
from kafka_on_spark.store.delta.log_parsing import BAD_JSON, expect
from kafka_on_spark.store.file_limits import CHECKPOINT_BYTES_MAX, COMMIT_BYTES_MAX
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.roots import RootFiles

_COLUMN: Final = "remove"


def read_tombstones(files: RootFiles, uri: str) -> dict[str, int]:
    """Return the removed files that the log tells of, by name, and when each was removed (ms since
    1970 UTC, by the clock of who did it).

    A commit that is cleaned meanwhile, or that can't be read, is passed over: what lacks is only
    kept for longer, or known as removed before.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    names = files.names(log_folder(uri))
    removed: dict[str, int] = {}
    base = -1
    for version in sorted(checkpoints_in(names), reverse=True):
        found = _of_checkpoint(files, checkpoint_path(uri, version))
        if found is not None:
            removed, base = found, version
            break
    for version in sorted(each for each in commits_in(names) if each > base):
        removed |= _of_commit(files, commit_path(uri, version))
    return removed


def _of_checkpoint(files: RootFiles, path: str) -> dict[str, int] | None:
    try:
        content = files.read(path, CHECKPOINT_BYTES_MAX)
        if not content:
            return None
        column = read_parquet(content, path, columns=[_COLUMN]).column(_COLUMN)
        return dict(map(_tombstone, column.drop_null().to_pylist()))
    except (UnsafeFileError, CorruptLogError, *BAD_JSON):
        return None


def _of_commit(files: RootFiles, path: str) -> dict[str, int]:
    try:
        content = files.read(path, COMMIT_BYTES_MAX) or b""
        if b'"remove"' not in content:  # most commits only add
            return {}
        actions = [parse_json(line) for line in content.splitlines() if line.strip()]
        return dict(_tombstone(each[_COLUMN]) for each in actions if _COLUMN in each)
    except (UnsafeFileError, *BAD_JSON):
        return {}


def _tombstone(remove: Mapping[str, Any]) -> tuple[str, int]:
    return expect(remove["path"], str), expect(remove["deletionTimestamp"], int)
