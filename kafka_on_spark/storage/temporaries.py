"""Removes what killed processes leave on a root: unfinished files, probes, tables of tests, and the
empty tables of cluster creations that lost a race.

No reader uses them, and they take space. A file is removed once it is a day old, by the clock of
this process and by the root's: a process that still writes it then only fails to rename it. One
that can't be removed is told, and keeps no other from going; one that is gone was another
cleaner's. A store has an object whole or not at all: of a broker's root there, probes and tables of
tests go.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.metadata.records import too_old_by_ms
from kafka_on_spark.storage.calls.deadlines import short_call_seconds, within
from kafka_on_spark.storage.calls.error_translation import ABSENT, storage_error
from kafka_on_spark.storage.delta.files.delta_files import commit_path, log_folder
from kafka_on_spark.storage.identity.metadata_root import TABLE_PREFIX
from kafka_on_spark.storage.identity.root_clock import modified_ms, now_ms_at, time_and_size
from kafka_on_spark.storage.lock.queued_files import FOLDER as QUEUED_REPORTS
from kafka_on_spark.storage.roots.local_changes import delete_file
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions, is_local

log = logging.getLogger(__name__)

AGE_SECONDS_MIN: Final = 24 * 3600.0

_PROBE: Final = re.compile(r"_probe-[0-9a-f]{32}")
_OF_FILES: Final = re.compile(
    r"_[0-9a-f]{32}\.tmp"  # ours, before they get their names
    r"|[0-9]{20}\.(json|checkpoint\.parquet)#[0-9]+|_last_checkpoint#[0-9]+"  # delta-rs's
    rf"|{_PROBE.pattern}"
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
    """What a cleaning of a root has removed.

    Attributes:
        count: Files, and tables.
        left_at: The replica folder that the next cleaning begins with; "": all of it was cleaned.
        error: Why a part of it could not be cleaned; None: all could.
    """

    count: int
    left_at: str = ""
    error: str | None = None


def clean_broker_root(
    root: str,
    tables: Iterable[str],
    options: StorageOptions,
    *,
    begins_at: str = "",
    is_over: Callable[[], bool] = lambda: False,
) -> RootCleaned:
    """Remove what killed processes left on a broker's root and, on a disk, in the replica folders
    `tables`, from `begins_at` on, one folder at least, until `is_over`."""
    cleaning = _Cleaning(root, options)
    if not is_local(root):
        cleaning.remove_objects()
        return cleaning.result()
    if not begins_at:
        cleaning.remove_scratch_tables()
        cleaning.remove_files(root, _OF_FILES)
    for number, table in enumerate(sorted(each for each in tables if each >= begins_at)):
        if number and is_over():
            return cleaning.result(left_at=table)
        for folder in (table, f"{table}/_delta_log"):
            cleaning.remove_files(folder, _OF_FILES)
    return cleaning.result()


def clean_metadata_root(root: str, table: str, options: StorageOptions) -> RootCleaned:
    """Remove what killed processes left on a metadata root."""
    cleaning = _Cleaning(root, options)
    cleaning.remove_views()
    if is_local(root):
        cleaning.remove_files(f"{table}/{QUEUED_REPORTS}", _QUEUED_REPORTS)
        for folder in (root, f"{root}/snapshots", table, f"{table}/_delta_log"):
            cleaning.remove_files(folder, _OF_FILES)
        cleaning.remove_unnamed_tables(table)
    return cleaning.result()


@dataclass(slots=True)
class _Cleaning:
    """One cleaning of a root: each of its parts is tried, whatever became of the others."""

    root: str
    options: StorageOptions
    root_ms: int | None = None
    count: int = 0
    errors: list[str] = field(default_factory=list)

    def result(self, left_at: str = "") -> RootCleaned:
        return RootCleaned(self.count, left_at, self.errors[0] if self.errors else None)

    @contextmanager
    def _telling(self, path: str) -> Iterator[None]:
        try:
            yield
        except ABSENT:
            log.debug("%s is gone", path)
        except KafkaStorageError as error:
            self.errors.append(error.message)
        except OSError as error:
            self.errors.append(storage_error(error, f"clean {path}", self.options).message)

    @property
    def _files(self) -> RootFiles:
        return RootFiles(self.root, self.options)

    def _is_old(self, written_at_ms: int) -> bool:
        own_ms = time.time_ns() // 1_000_000
        if own_ms - written_at_ms <= 1000 * AGE_SECONDS_MIN:
            return False
        if self.root_ms is None:
            self.root_ms = now_ms_at(self.root, self.options)
        return too_old_by_ms(own_ms, self.root_ms) - written_at_ms > 1000 * AGE_SECONDS_MIN

    def _delete(self, path: str) -> None:
        self._files.delete(path)
        self.count += 1

    def remove_files(self, folder: str, names: re.Pattern[str]) -> None:
        """Remove old files of such names from a local folder."""
        with self._telling(folder):
            remove = partial(_remove_in, folder, names, self._is_old)
            removed, failure = within(self.root, remove, short_call_seconds(self.root))
            self.count += removed
            if failure is not None:
                raise failure

    def remove_views(self) -> None:
        """Remove the tables of views that no process removed when it ended."""
        folder = f"{self.root}/{VIEWS}"
        with self._telling(folder):
            for name in filter(_VIEW.fullmatch, self._files.names(folder)):
                view = f"{folder}/{name}"
                with self._telling(view):
                    if self._is_old(_modified_ms(commit_path(view, 0), self.options)):
                        self._delete(view)

    def remove_scratch_tables(self) -> None:
        """Remove the tables of tests of the root."""
        with self._telling(self.root):
            for name in filter(_SCRATCH_TABLE.fullmatch, self._files.names(self.root)):
                table = f"{self.root}/{name}"
                with self._telling(table):
                    if self._is_old(_changed_ms(table)):
                        self._delete(table)

    def remove_objects(self) -> None:
        """Remove the probes and the tables of tests of a store, which one listing finds."""
        with self._telling(self.root):
            for name in self._files.names(self.root):
                path = f"{self.root}/{name}"
                with self._telling(path):
                    if _PROBE.fullmatch(name):
                        self._remove_probe(path)
                    elif _SCRATCH_TABLE.fullmatch(name):
                        self._remove_scratch_table(path)

    def _remove_probe(self, path: str) -> None:
        written_at_ms = _written_at_ms(path, self.options)
        if written_at_ms is not None and self._is_old(written_at_ms):
            self._files.delete_file(path)
            self.count += 1

    def _remove_scratch_table(self, table: str) -> None:
        written_at_ms = _written_at_ms(commit_path(table, 0), self.options)
        # Its first commit was its first object: without it this is the rest of a deletion.
        if written_at_ms is None or self._is_old(written_at_ms):
            self._delete(table)

    def remove_unnamed_tables(self, table: str) -> None:
        """Remove empty metadata tables other than the one that the root names: a root names its
        table once, so no process ever writes to the others."""
        with self._telling(self.root):
            for name in self._files.names(self.root):
                other = f"{self.root}/{name}"
                if not name.startswith(TABLE_PREFIX) or other == table:
                    continue
                with self._telling(other):
                    if self._is_old(_changed_ms(other)) and self._is_empty(other):
                        self._delete(other)

    def _is_empty(self, table: str) -> bool:
        names = self._files.names
        return names(table) == ["_delta_log"] and names(log_folder(table)) == _CREATED


def _modified_ms(path: str, options: StorageOptions) -> int:
    return within(path, partial(modified_ms, path, options), short_call_seconds(path))


def _written_at_ms(path: str, options: StorageOptions) -> int | None:
    """Return when a file was written, ms since 1970 UTC; None: there is none."""
    read = partial(time_and_size, path, options)
    found = within(path, read, short_call_seconds(path))
    return None if found is None else found[0]


def _remove_in(
    folder: str, names: re.Pattern[str], is_old: Callable[[int], bool]
) -> tuple[int, OSError | None]:
    """Remove old files of such names; return how many, and why one could not be."""
    removed = 0
    failure: OSError | None = None
    with os.scandir(folder) as entries:
        for entry in entries:
            if not names.fullmatch(entry.name):
                continue
            try:
                removed += _remove_old(entry, is_old)
            except OSError as error:
                failure = error
    if removed:
        log.info("removed %d files from %s that were never finished", removed, folder)
    return removed, failure


def _remove_old(entry: "os.DirEntry[str]", is_old: Callable[[int], bool]) -> bool:
    with suppress(FileNotFoundError):  # another cleaner was faster
        if entry.is_file(follow_symlinks=False) and is_old(_changed_ms(entry.path)):
            delete_file(entry.path)
            return True
    return False


def _changed_ms(path: str) -> int:
    return os.stat(path, follow_symlinks=False).st_mtime_ns // 1_000_000
