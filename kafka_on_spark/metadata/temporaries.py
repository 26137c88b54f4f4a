"""Removes what killed processes leave on a root: unfinished files, probes and tables of tests.

No reader uses them, and they take space. A file is removed once it is a day old, by the clock of
this process and by the root's: a process that still writes it then only fails to rename it. A file
that can't be removed is reported, and the others go; one that is gone was removed by another
cleaner. A store has an object whole or not at all: there probes and tables of tests are removed
from a broker's root.
"""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import too_old_by_ms
from kafka_on_spark.metadata.commit_lock import QUEUED
from kafka_on_spark.store.delta.delta_files import commit_path
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.root_identity import now_ms_at
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local, leaves_unfinished

log = logging.getLogger(__name__)

AGE_SECONDS_MIN: Final = 24 * 3600.0

_OF_FILES: Final = re.compile(
    r"_[0-9a-f]{32}\.tmp"  # ours, before they get their names
    r"|[0-9]{20}\.(json|checkpoint\.parquet)#[0-9]+|_last_checkpoint#[0-9]+"  # delta-rs's
    r"|_probe-[0-9a-f]{32}"
    r"|[0-9]{20}\.checkpoint\.parquet\.unreadable"  # of an older version
)
_QUEUED_REPORTS: Final = re.compile(r"[0-9a-f]{32}")

VIEWS: Final = "views"
"""In the metadata root: the tables of views of running queries."""

_VIEW: Final = re.compile(r"[0-9a-f]{32}")
_SCRATCH_TABLE: Final = re.compile(r"_race-[0-9a-f]{32}")


def clean_broker_root(root: str, options: StorageOptions) -> int:
    """Remove what killed processes left on a broker's root, but for the folders of replicas; return
    how many files and tables.

    Raises:
        KafkaStorageError: A part of it could not be cleaned; all others were.
    """
    cleaning = _Cleaning(root, options)
    cleaning.remove_files(root, _OF_FILES)
    cleaning.remove_tables(root, _SCRATCH_TABLE)
    return cleaning.result()


def clean_table(root: str, table: str, options: StorageOptions) -> int:
    """Do the same in a table's folder on a disk or HDFS."""
    cleaning = _Cleaning(root, options)
    for folder in (table, f"{table}/_delta_log"):
        cleaning.remove_files(folder, _OF_FILES)
    return cleaning.result()


def clean_metadata_root(root: str, table: str, options: StorageOptions) -> int:
    cleaning = _Cleaning(root, options)
    cleaning.remove_tables(f"{root}/{VIEWS}", _VIEW)
    cleaning.remove_files(root, _OF_FILES)
    cleaning.remove_tables(root, _SCRATCH_TABLE)
    if leaves_unfinished(root):
        cleaning.remove_files(f"{table}/{QUEUED}", _QUEUED_REPORTS)
        for folder in (root, f"{root}/snapshots", table, f"{table}/_delta_log"):
            cleaning.remove_files(folder, _OF_FILES)
    return cleaning.result()


@dataclass(slots=True)
class _Cleaning:
    """One cleaning of a root: each of its parts is tried, whatever became of the others."""

    root: str
    options: StorageOptions
    root_ms: int | None = None
    count: int = 0
    errors: list[KafkaStorageError] = field(default_factory=list)

    def result(self) -> int:
        if self.errors:
            raise self.errors[0]
        return self.count

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except UnsafeFileError as error:
            log.debug("%s", error)  # a folder or a link stays
        except KafkaStorageError as error:
            self.errors.append(error)

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

    def _named(self, folder: str, names: re.Pattern[str]) -> list[str]:
        found: list[str] = []
        with self._telling():
            found = self._files.names(folder)
        return [f"{folder}/{name}" for name in found if names.fullmatch(name)]

    def remove_files(self, folder: str, names: re.Pattern[str]) -> None:
        before = self.count
        for path in self._named(folder, names):
            with self._telling():
                is_there = self._files.size(path) is not None
                at_ms = self._files.time_ms(path)
                if is_there and at_ms is not None and self._is_old(at_ms):
                    self._files.delete_file(path)
                    self.count += 1
        if self.count > before:
            log.info("removed %d unfinished files from %s", self.count - before, folder)

    def remove_tables(self, folder: str, names: re.Pattern[str]) -> None:
        for table in self._named(folder, names):
            with self._telling():
                at_ms = self._files.time_ms(commit_path(table, 0))
                if at_ms is None and is_local(table):
                    at_ms = self._files.time_ms(table)
                # On a store the first commit is a table's first object: without it this is the rest
                # of a deletion.
                if at_ms is None or self._is_old(at_ms):
                    self._files.delete(table)
                    self.count += 1
