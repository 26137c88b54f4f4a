"""Removes what killed processes leave on a disk: unfinished files, probes, and the empty tables of
cluster creations that lost a race.

No reader uses them, and they take space. A file is removed once it is a day old: a process that
still writes it then only fails to rename it.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.storage.calls.deadlines import short_call_seconds, within
from kafka_on_spark.storage.delta.files.delta_files import commit_path, log_folder
from kafka_on_spark.storage.identity.metadata_root import TABLE_PREFIX
from kafka_on_spark.storage.identity.root_clock import modified_ms
from kafka_on_spark.storage.lock.queued_files import FOLDER as QUEUED_REPORTS
from kafka_on_spark.storage.roots.local_changes import delete_file
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions, is_local

log = logging.getLogger(__name__)

AGE_SECONDS_MIN: Final = 24 * 3600.0

_OF_FILES: Final = re.compile(
    r"_[0-9a-f]{32}\.tmp"  # ours, before they get their names
    r"|[0-9]{20}\.(json|checkpoint\.parquet)#[0-9]+|_last_checkpoint#[0-9]+"  # delta-rs's
    r"|_probe-[0-9a-f]{32}"
    r"|[0-9]{20}\.checkpoint\.parquet\.unreadable"  # set aside
)
_QUEUED_REPORTS: Final = re.compile(r"[0-9a-f]{32}(\.tmp)?")
_CREATED: Final = [f"{0:020}.json"]
"""All files in the log of a table that was created and never written to."""

VIEWS: Final = "views"
"""In the metadata root: the tables of views of running queries."""

_VIEW: Final = re.compile(r"[0-9a-f]{32}")
_SCRATCH_TABLE: Final = re.compile(r"_race-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class RootCleaned:
    """What a cleaning of a broker's root has removed.

    Attributes:
        count: Files.
        left_at: The replica folder that the next cleaning begins with; "": all of it was cleaned.
    """

    count: int
    left_at: str


def clean_broker_root(
    root: str,
    tables: Iterable[str],
    options: StorageOptions,
    *,
    begins_at: str = "",
    is_over: Callable[[], bool] = lambda: False,
) -> RootCleaned:
    """Remove what killed processes left on a broker's root and in the replica folders `tables`,
    from `begins_at` on, one folder at least, until `is_over`."""
    count = 0
    if not begins_at:
        count = _remove_scratch_tables(root, options) + _removed(root, root, _OF_FILES)
    for number, table in enumerate(sorted(each for each in tables if each >= begins_at)):
        if number and is_over():
            return RootCleaned(count, table)
        for folder in (table, f"{table}/_delta_log"):
            count += _removed(root, folder, _OF_FILES)
    return RootCleaned(count, "")


def clean_metadata_root(root: str, table: str, options: StorageOptions) -> int:
    """Remove what killed processes left on a metadata root; return how many files and tables."""
    views = _remove_views(root, options)
    if not is_local(root):
        return views
    folders = (root, f"{root}/snapshots", table, f"{table}/_delta_log")
    return (
        views
        + _removed(root, f"{table}/{QUEUED_REPORTS}", _QUEUED_REPORTS)
        + sum(_removed(root, folder, _OF_FILES) for folder in folders)
        + _remove_unnamed_tables(root, table)
    )


def _remove_views(root: str, options: StorageOptions) -> int:
    """Remove the tables of views that no process removed when it ended."""
    files, removed = RootFiles(root, options), 0
    with suppress(OSError, KafkaStorageError):
        for name in files.names(f"{root}/{VIEWS}"):
            view = f"{root}/{VIEWS}/{name}"
            with suppress(FileNotFoundError):
                if _VIEW.fullmatch(name) and _is_older(commit_path(view, 0), options):
                    files.delete(view)
                    removed += 1
    return removed


def _is_older(path: str, options: StorageOptions) -> bool:
    read = partial(modified_ms, path, options)
    written_at_ms = within(path, read, short_call_seconds(path))
    return time.time() - written_at_ms / 1000 > AGE_SECONDS_MIN


def _removed(root: str, folder: str, names: re.Pattern[str]) -> int:
    with suppress(OSError, KafkaStorageError):  # the folder is gone, or its disk is away
        return within(root, partial(_remove_in, folder, names), short_call_seconds(root))
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
    """Remove empty metadata tables other than the one that the root names: a root names its table
    once, so no process ever writes to the others."""
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
                delete_file(entry.path)
                removed += 1
    if removed:
        log.info("removed %d files from %s that were never finished", removed, folder)
    return removed


def _is_old(path: str) -> bool:
    return time.time() - os.stat(path, follow_symlinks=False).st_mtime > AGE_SECONDS_MIN
