"""Tells where the metadata log's rows stand: its files, as the table or its commits list them, and
the actions that add and remove them.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.storage.calls.error_translation import parsing
from kafka_on_spark.stored_json import parse_json

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


def log_files(files: pa.Table) -> list[LogFile]:
    """Return the table's active files in the order of their rows.

    Raises:
        CorruptLogError: One is no file of the metadata log.
    """
    names = (
        "partition.base_offset",
        "num_records",
        "path",
        "size_bytes",
        "modification_time",
    )
    with parsing("the metadata table's list of files"):
        columns = [files.column(name).to_pylist() for name in names]
        rows = (LogFile(*row) for row in zip(*columns, strict=True))
        return sorted(rows, key=lambda file: file.base_offset)


def files_added_by(commits: list[list[dict[str, Any]]]) -> tuple[list[LogFile], int | None]:
    """Return the files of new records that commits add, in order, and where the log ends after
    them, or None if no commit says so. A merge adds a file without new records.

    Raises:
        KeyError, TypeError, ValueError: They are not commits of ours.
    """
    files, end_offset = [], None
    for actions in commits:
        if sum(_is_end(action) for action in actions) > 1:
            raise ValueError("a commit that says twice where the log ends")
        for action in actions:
            add, txn = action.get("add"), action.get("txn")
            if add is not None and add["dataChange"]:
                files.append(
                    LogFile(
                        base_offset=int(add["partitionValues"]["base_offset"]),
                        size=parse_json(add["stats"])["numRecords"],
                        path=add["path"],
                        size_bytes=add["size"],
                        time_ms=add["modificationTime"],
                    )
                )
            if txn is not None and _is_end(action):
                end_offset = int(txn["version"])
    return files, end_offset


def _is_end(action: dict[str, Any]) -> bool:
    txn = action.get("txn")
    return txn is not None and txn["appId"] == LOG_END_OFFSET


def _partition_values(base_offset: int) -> dict[str, str | None]:
    return {"base_offset": str(base_offset), "epoch": str(EPOCH)}


def add_action(
    path: str, size_bytes: int, count: int, base_offset: int, time_ms: int, *, data_change: bool
) -> AddAction:
    """Return the action that adds a file that begins at `base_offset`."""
    return AddAction(
        path=path,
        size=size_bytes,
        partition_values=_partition_values(base_offset),
        modification_time=time_ms,
        data_change=data_change,
        stats=f'{{"numRecords":{count}}}',
    )


def remove_action(file: LogFile) -> RemoveAction:
    """Return the action that removes a file whose rows a merged file holds."""
    return RemoveAction(
        file.path, False, file.time_ms, file.size_bytes, _partition_values(file.base_offset)
    )
