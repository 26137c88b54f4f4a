"""What of a table may be deleted: old commits and checkpoints here, and files that it has removed.

Commits go in ascending order, one after the other, and a cleaner stops at the first that it can't
delete: as long as a version's file is there, no later one has been deleted. What is seen at a
version therefore counts only if the commit before it is still there (`delta_log`).

A listing of a local folder may lack a file that was put while it was listed, and have the next: so
before a commit is deleted, the one before it is looked for, unless it was just deleted.

Checkpoints stay as long as commits do, so there are eleven of them and not three. A commit below
the oldest checkpoint is of use to a process that follows the table, and can't be reached by one
that opens it: with three, fsck and the history of upkeep would see three hundred of the thousand
commits that are there, and other engines could not travel to the rest.

A thousand commits are seven seconds at 150 appends a second, so commits stay for two minutes as
well, by the times that the root gave them. These are for processes that follow the table and were
slow. A process that was slower is told so by the rule of the predecessor, so no clock decides what
is safe.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.store.delta.delta_files import (
    BAD_JSON,
    UNREADABLE_SUFFIX,
    checkpoint_path,
    checkpoint_version,
    checkpoints_in,
    commit_path,
    commits_in,
    expect,
    log_folder,
)
from kafka_on_spark.store.local_files import (
    CHECKPOINT_BYTES_MAX,
    COMMIT_BYTES_MAX,
    UnsafeFileError,
)
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.roots import RootFiles

log = logging.getLogger(__name__)

COMMITS_KEPT: Final = 1000
"""Commits below the newest checkpoint that stay: a process may sleep for so many."""

COMMITS_KEPT_MS: Final = 120_000
"""Commits that are newer than this stay, too, counted back from the newest one."""

CHECKPOINTS_KEPT: Final = 3
"""At least, however many commits lie between them: two may be damaged, and the table opens."""


def first_kept(checkpoints: Iterable[int]) -> int:
    """Return the first version whose commit stays, by the checkpoints there are."""
    newest = sorted(checkpoints, reverse=True)[:CHECKPOINTS_KEPT]
    if len(newest) < CHECKPOINTS_KEPT:
        return 0
    return max(0, min(newest[0] - COMMITS_KEPT, newest[-1]))


def clean_log(files: RootFiles, uri: str) -> int:
    """Delete the commits and then the checkpoints that are not needed; return how many commits.

    If a commit is there that the listing lacks, those after it stay for the next cleaner.

    Raises:
        KafkaStorageError: One could not be deleted; those after it stay.
    """
    names = files.names(log_folder(uri))
    checkpoints = checkpoints_in(names)
    bound = first_kept(checkpoints)
    commits = sorted(commits_in(names))
    commits = _old(files, uri, commits, [each for each in commits if each < bound])
    deleted = -1
    for number, version in enumerate(commits):
        if version > deleted + 1 and files.size(commit_path(uri, version - 1)) is not None:
            return number
        files.delete_file(commit_path(uri, version))
        deleted = version
    for version in sorted(each for each in checkpoints if each < bound):
        files.delete_file(checkpoint_path(uri, version))
    for name in (each for each in names if each.endswith(UNREADABLE_SUFFIX)):
        aside = checkpoint_version(name.removesuffix(UNREADABLE_SUFFIX))
        if aside is not None and aside < bound:
            files.delete_file(f"{log_folder(uri)}/{name}")
    return len(commits)


def _old(files: RootFiles, uri: str, commits: list[int], due: list[int]) -> list[int]:
    """Return those of the `due` commits that are old enough, the first ones.

    A time far ahead of the newest commit's was given before the root's clock was set back, and
    keeps nothing.
    """
    newest_ms = files.time_ms(commit_path(uri, commits[-1])) if due else None
    if newest_ms is None:
        return []

    def is_young(version: int) -> bool:
        written_ms = files.time_ms(commit_path(uri, version))
        return written_ms is not None and abs(newest_ms - written_ms) < COMMITS_KEPT_MS

    return due[: bisect_left(due, True, key=is_young)]


_COLUMN: Final = "remove"


def read_tombstones(files: RootFiles, uri: str) -> dict[str, int]:
    """Return the removed files that the log tells of, by name, and when each was removed (ms since
    1970 UTC, by the clock of who did it).

    A commit that is cleaned meanwhile, or that can't be read, is passed over: what lacks is only
    kept for longer, or known as removed before.
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
