"""Moves old commits of a long log to a folder beside it, so that the log's folder stays short.

On a local disk delta-rs lists all of `_delta_log` for each commit, so a commit would slow down with
the length of the history. So commits well below a checkpoint move to the folder `_old_commits`.
Nothing is deleted: a version's commit lies in one of the two folders, or in both for a moment.

**A version is taken once its file is in `_old_commits`, even if `_delta_log` has none.** A process
that was frozen between its read and its put may put another commit at such a version. A commit is
linked into `_old_commits` before it leaves the log, and never leaves that folder, so one check of
the folder after a put or a read tells: the commit there counts, and a writer that finds another
writer's commit there has lost. No clock and no count of versions decides this.

A store lists its log from a version on, so the logs of stores stay as they are.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kafka_on_spark.errors import CommitConflictError, KafkaStorageError
from kafka_on_spark.storage.calls.deadlines import long_call_seconds, within
from kafka_on_spark.storage.calls.file_limits import COMMIT_BYTES_MAX
from kafka_on_spark.storage.delta.delta_files import (
    checkpoint_version,
    commit_path,
    commit_version,
    log_folder,
    write_id_of,
)
from kafka_on_spark.storage.roots.roots import RootFiles, flush, is_local, reason

OLD_COMMITS: Final = "_old_commits"
"""The folder's name, in the table's folder; readers skip names that begin with `_`."""

RECENT_VERSIONS: Final = 100
"""Versions below the newest checkpoint that stay in the log. A reader at one of them reads on; one
further behind opens the table again."""

MOVE_BATCH_MIN: Final = 50
"""Commits to move at once, at least: they share two flushes of a folder."""


def old_folder(uri: str) -> str:
    """Return the folder of the old commits of the table at `uri`."""
    return f"{uri}/{OLD_COMMITS}"


def old_path(uri: str, version: int) -> str:
    """Return the path of the commit file of `version` once it is old."""
    return f"{old_folder(uri)}/{version:020d}.json"


def is_old(files: RootFiles, uri: str, version: int) -> bool:
    """Return whether the commit of `version` is old, whatever file stands in the log."""
    return is_local(uri) and files.size(old_path(uri, version)) is not None


def has_moved(files: RootFiles, uri: str, path: str) -> bool:
    """Return whether a file of the log has become old."""
    return is_local(uri) and files.size(f"{old_folder(uri)}/{path.rsplit('/', 1)[-1]}") is not None


def flush_unless_old(
    flush_all: Callable[[Sequence[str]], None], files: RootFiles, uri: str, paths: Sequence[str]
) -> bool:
    """Flush files of a log, and its folder; return False if one became old meanwhile.

    Raises:
        KafkaStorageError: The disk failed.
    """
    try:
        flush_all([*paths, log_folder(uri)])
    except KafkaStorageError as error:
        is_gone = isinstance(error.__cause__, FileNotFoundError)
        if is_gone and any(has_moved(files, uri, path) for path in paths):
            return False
        raise
    return True


def commit_size(files: RootFiles, uri: str, version: int) -> int | None:
    """Return the size of the commit file of `version`, None if there is none."""
    return commit_sizes(files, uri, (version,))[0]


def commit_sizes(files: RootFiles, uri: str, versions: Sequence[int]) -> list[int | None]:
    """Return the sizes of several commit files, in one call.

    First those in the log, then the old ones: a commit that leaves the log in between is found.
    """
    paths = [commit_path(uri, version) for version in versions]
    if not is_local(uri):
        return files.sizes_of(paths)
    paths += [old_path(uri, version) for version in versions]
    found = files.sizes_of(paths)
    pairs = zip(found[: len(versions)], found[len(versions) :], strict=True)
    return [size if old_size is None else old_size for size, old_size in pairs]


def read_commit(files: RootFiles, uri: str, version: int) -> bytes | None:
    """Return the bytes of the commit of `version`, None if there is none.

    First from the log, then from the old ones: a commit that leaves the log in between is found.
    """
    content = files.read(commit_path(uri, version), COMMIT_BYTES_MAX)
    old = files.read(old_path(uri, version), COMMIT_BYTES_MAX) if is_local(uri) else None
    return content if old is None else old


def write_id_at(files: RootFiles, uri: str, version: int) -> str | None:
    """Return the write id of the commit at `version`, "" if it has none; None if there is no commit
    or it can't be read."""
    try:
        content = read_commit(files, uri, version)
    except KafkaStorageError:
        return None
    return None if content is None else write_id_of(content)


def move_old_commits(files: RootFiles, uri: str, checkpoint_version: int) -> None:
    """Move commits and checkpoints that are old out of the log of a local table; the checkpoint of
    `checkpoint_version` is flushed.

    Raises:
        KafkaStorageError: The disk failed, or has no hard links. Each commit is in one of the two
            folders, and the next call continues.
    """
    below = checkpoint_version - RECENT_VERSIONS
    names = [name for name in files.names(log_folder(uri)) if _is_old_name(name, below)]
    if sum(name.endswith(".json") for name in names) >= MOVE_BATCH_MIN:
        within(uri, partial(_move, uri, names), long_call_seconds(uri))


def _move(uri: str, names: Sequence[str]) -> None:
    log, old = log_folder(uri), old_folder(uri)
    try:
        # Only this folder: a table that was removed must not be created again.
        with suppress(FileExistsError):
            os.mkdir(old)
            flush([uri])
        for name in names:
            # Another process has done it, or this one before a crash.
            with suppress(FileExistsError, FileNotFoundError):
                os.link(f"{log}/{name}", f"{old}/{name}", follow_symlinks=False)
        # The files, too: their writers may not have flushed them.
        flush([*(f"{old}/{name}" for name in names), old])
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(f"{log}/{name}")
    except OSError as error:
        raise KafkaStorageError(f"can't move commits of {uri}: {reason(error)}") from error


def _is_old_name(name: str, below: int) -> bool:
    version = commit_version(name)
    if version is None:
        version = checkpoint_version(name)
    return version is not None and version < below


def committed_path(files: RootFiles, uri: str, version: int, write_id: str) -> str:
    """Return the path of the commit that was put just now, if its version was free.

    Raises:
        CommitConflictError: The version was taken: another commit of it had become old.
        KafkaStorageError: The root does not answer, or that commit can't be read.
    """
    if not is_old(files, uri, version):
        return commit_path(uri, version)
    found = write_id_at(files, uri, version)
    if found is None:
        raise KafkaStorageError(f"can't read the commit {version} of {uri}")
    if found != write_id:
        raise CommitConflictError("version was taken long ago", version=version)
    return old_path(uri, version)
