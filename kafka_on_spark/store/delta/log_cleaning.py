"""Deletes old commits and checkpoints of a table (design note 2).

Commits go in ascending order, one after the other, and a cleaner stops at the first that it can't
delete: as long as a version's file is there, no later one has been deleted. What is seen at a
version therefore counts only if the commit before it is still there (`delta_log`).

A listing of a local folder may lack a file that was put while it was listed, and have the next: so
before a commit is deleted, the one before it is looked for, unless it was just deleted.

Commits that stay are for processes that follow the table and were slow. Checkpoints stay as long,
for those that open it: fsck, and engines that travel.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from kafka_on_spark.store.delta.delta_files import (
    checkpoint_path,
    checkpoints_in,
    commit_path,
    commits_in,
    log_folder,
)
from kafka_on_spark.store.roots import RootFiles

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
