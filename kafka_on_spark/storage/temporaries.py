"""Names that killed processes leave on a disk: of files that were never finished, of probes, and of
the empty tables of creations that another was faster than.

Nobody reads them; they take room. One is removed when it is a day old: whoever still writes to it
then fails to give it its name, and nothing else.
"""

import logging
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.storage.deadlines import look_seconds, within
from kafka_on_spark.storage.delta_files import log_folder
from kafka_on_spark.storage.handed_in import FOLDER as HANDED_IN
from kafka_on_spark.storage.metadata_root import TABLE_PREFIX
from kafka_on_spark.storage.roots import RootFiles, StorageOptions, is_local

log = logging.getLogger(__name__)

AGE_SECONDS_MIN: Final = 24 * 3600.0

_OF_FILES: Final = re.compile(
    r"_[0-9a-f]{32}\.tmp"  # ours, before they get their names
    r"|[0-9]{20}\.(json|checkpoint\.parquet)#[0-9]+|_last_checkpoint#[0-9]+"  # those of delta-rs
    r"|_probe-[0-9a-f]{32}"
)
_NOTE: Final = re.compile(r"[0-9a-f]{32}(\.tmp)?")
_CREATED: Final = [f"{0:020}.json"]
"""All that is in the log of a table that was made and never written to."""

_SCRATCH_TABLE: Final = re.compile(r"_race-[0-9a-f]{32}")


def clean_broker_root(root: str, tables: Iterable[str], options: StorageOptions) -> int:
    """Remove what killed processes have left on a broker's root, whose replicas' folders are
    `tables`; return how many names. On a store a put is there as a whole or not at all."""
    if not is_local(root):
        return 0
    folders = [root, *(each for table in tables for each in (table, f"{table}/_delta_log"))]
    return _remove_scratch_tables(root, options) + sum(
        _removed(root, folder, _OF_FILES) for folder in folders
    )


def clean_metadata_root(root: str, table: str) -> int:
    """Remove what killed processes have left on a metadata root; return how many names."""
    if not is_local(root):
        return 0
    folders = (root, f"{root}/snapshots", table, f"{table}/_delta_log")
    return (
        _removed(root, f"{table}/{HANDED_IN}", _NOTE)
        + sum(_removed(root, folder, _OF_FILES) for folder in folders)
        + _remove_unnamed_tables(root, table)
    )


def _removed(root: str, folder: str, names: re.Pattern[str]) -> int:
    with suppress(OSError, KafkaStorageError):  # it is gone, or its disk is away
        return within(root, partial(_remove_in, folder, names), look_seconds(root))
    return 0


def _remove_scratch_tables(root: str, options: StorageOptions) -> int:
    files, removed = RootFiles(root, options), 0
    with suppress(OSError, KafkaStorageError):
        for name in files.names(root):
            if _SCRATCH_TABLE.fullmatch(name) and _is_old(f"{root}/{name}"):
                files.delete(f"{root}/{name}")
                removed += 1
    return removed


def _remove_unnamed_tables(root: str, table: str) -> int:
    """Remove metadata tables that hold nothing, beside the one that the root names: a root is
    named once, so nobody ever writes to them."""
    files, removed = RootFiles(root, StorageOptions()), 0
    with suppress(OSError, KafkaStorageError):
        for name in files.names(root):
            other = f"{root}/{name}"
            if not name.startswith(TABLE_PREFIX) or other == table or not _is_old(other):
                continue
            if files.names(other) == ["_delta_log"] and files.names(log_folder(other)) == _CREATED:
                files.delete(other)
                removed += 1
    return removed


def _remove_in(folder: str, names: re.Pattern[str]) -> int:
    removed = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            is_one = names.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            if is_one and _is_old(entry.path):
                os.unlink(entry.path)
                removed += 1
    if removed:
        log.info("removed %d files from %s that were never finished", removed, folder)
    return removed


def _is_old(path: str) -> bool:
    return time.time() - os.stat(path, follow_symlinks=False).st_mtime > AGE_SECONDS_MIN
