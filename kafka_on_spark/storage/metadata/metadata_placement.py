"""Tells where the metadata log's rows stand: its files, as the table or its commits list them, and
the actions that add and remove them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.audit.history import FileEntry, TableCommit
from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.storage.calls.error_translation import parsing
from kafka_on_spark.storage.delta.files.actions import AddFile, RemoveFile

EPOCH: Final = 0  # the quorum's, while there is one voter
LOG_END_OFFSET: Final = "log-end-offset"

_FILE_NAME: Final = re.compile(r"[0-9]{20}-[0-9a-f]{32}\.parquet")


def is_file_name(path: str) -> bool:
    """Return whether `path` is the plain name of a file of the metadata log."""
    return _FILE_NAME.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the table: where its rows stand in the log."""

    base_offset: int
    size: int
    path: str
    size_bytes: int
    time_ms: int

    def __post_init__(self) -> None:
        # A name without a path: a file of the log lies in the table's own folder.
        if not is_file_name(self.path) or self.base_offset < 0 or self.size <= 0:
            raise CorruptLogError("not a file of the metadata log", path=self.path)

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.size


def log_files(files: Iterable[FileEntry]) -> list[LogFile]:
    """Return files of the table in the order of their rows.

    Raises:
        CorruptLogError: One is no file of the metadata log.
    """
    with parsing("the metadata table's list of files"):
        return sorted(map(_log_file, files), key=lambda file: file.base_offset)


def _log_file(file: FileEntry) -> LogFile:
    return LogFile(
        base_offset=int(file.values["base_offset"] or ""),
        size=file.record_count or 0,
        path=file.path,
        size_bytes=file.size_bytes,
        time_ms=file.time_ms,
    )


def files_added_by(commits: Iterable[TableCommit]) -> list[LogFile]:
    """Return the files of new records that commits add, in order. A merge adds a file without new
    records.

    Raises:
        CorruptLogError: One is no file of the metadata log.
    """
    return log_files(file for commit in commits for file in commit.adds if file.changes_data)


def _partition_values(base_offset: int) -> dict[str, str | None]:
    return {"base_offset": str(base_offset), "epoch": str(EPOCH)}


def add_file(
    path: str, size_bytes: int, count: int, base_offset: int, time_ms: int, *, changes_data: bool
) -> AddFile:
    """Return the action that adds a file that begins at `base_offset`."""
    return AddFile(
        path=path,
        size_bytes=size_bytes,
        values=_partition_values(base_offset),
        time_ms=time_ms,
        stats=f'{{"numRecords":{count}}}',
        changes_data=changes_data,
    )


def remove_file(file: LogFile) -> RemoveFile:
    """Return the action that removes a file whose rows a merged file holds."""
    return RemoveFile(
        path=file.path,
        size_bytes=file.size_bytes,
        values=_partition_values(file.base_offset),
        changes_data=False,
    )
