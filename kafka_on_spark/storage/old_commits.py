"""Commits of a long log that lie beside it: its folder stays short, and no version is given twice.

On a local disk delta-rs lists all of `_delta_log` for each commit, so a commit would slow down with
the length of the history (GROUND §1.3). So commits well below a checkpoint move to a folder beside
it. Nothing is deleted: a version's commit lies in one of two places, or in both for a moment.

**A version whose commit is here is taken**, though its place in the log is empty: somebody who was
frozen between his look and his put may put another commit there. Since a commit is linked here
before it leaves the log, and never leaves from here, one look here tells. Whoever puts looks after
it, and has lost if another's commit is here; whoever reads a version looks after it, too, and what
is here counts. No clock and no number of versions is asked.

Stores list from a version on: their logs are left as they are.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from kafka_on_spark.errors import CommitConflictError, KafkaStorageError
from kafka_on_spark.storage.deadlines import within, work_seconds
from kafka_on_spark.storage.delta_files import (
    checkpoint_version,
    commit_path,
    commit_version,
    log_folder,
    write_id_of,
)
from kafka_on_spark.storage.limits import COMMIT_BYTES_MAX
from kafka_on_spark.storage.roots import RootFiles, flush, is_local, reason

OLD_COMMITS: Final = "_old_commits"
"""The folder's name in a table's; what begins with `_` is none of a table's files to any reader."""

KEPT_VERSIONS: Final = 100
"""Versions below the newest checkpoint that stay in the log, for those who follow it from behind:
these read on, others open the table anew."""

MOVED_AT_ONCE: Final = 50
"""Commits that are moved together: two flushes of a folder are shared by so many."""


def old_folder(uri: str) -> str:
    """Return the folder of the old commits of the table at `uri`."""
    return f"{uri}/{OLD_COMMITS}"


def old_path(uri: str, version: int) -> str:
    """Return where the commit file of `version` lies when it is an old one."""
    return f"{old_folder(uri)}/{version:020d}.json"


def is_old(files: RootFiles, uri: str, version: int) -> bool:
    """Return whether the commit of `version` is an old one, whatever lies in its place."""
    return is_local(uri) and files.size(old_path(uri, version)) is not None


def has_moved(files: RootFiles, uri: str, path: str) -> bool:
    """Return whether a file of the log is an old one by now."""
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
    """Return the sizes of several commit files, by one look.

    First all in the log, then the old ones: what left the log in between is there.
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

    First the log, then the old ones: what left the log in between is there.
    """
    content = files.read(commit_path(uri, version), COMMIT_BYTES_MAX)
    old = files.read(old_path(uri, version), COMMIT_BYTES_MAX) if is_local(uri) else None
    return content if old is None else old


def write_id_at(files: RootFiles, uri: str, version: int) -> str | None:
    """Return the write id of the commit at `version`, "" for one without; None if there is none or
    it can't be read."""
    try:
        content = read_commit(files, uri, version)
    except KafkaStorageError:
        return None
    return None if content is None else write_id_of(content)


def move_old_commits(files: RootFiles, uri: str, checkpoint_version: int) -> None:
    """Move what is no longer needed in the log of a local table whose checkpoint is flushed.

    Raises:
        KafkaStorageError: The disk failed, or knows no links. Each commit is where it was, or
            here; the next call goes on.
    """
    below = checkpoint_version - KEPT_VERSIONS
    names = [name for name in files.names(log_folder(uri)) if _is_old_name(name, below)]
    if sum(name.endswith(".json") for name in names) >= MOVED_AT_ONCE:
        within(uri, partial(_move, uri, names), work_seconds(uri))


def _move(uri: str, names: Sequence[str]) -> None:
    log, old = log_folder(uri), old_folder(uri)
    try:
        # Only this folder: a table that was taken away must not be made anew.
        with suppress(FileExistsError):
            os.mkdir(old)
            flush([uri])
        for name in names:
            # Done by another, or before a crash.
            with suppress(FileExistsError, FileNotFoundError):
                os.link(f"{log}/{name}", f"{old}/{name}", follow_symlinks=False)
        # The files, too: whoever wrote them may not have.
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


def place_of(files: RootFiles, uri: str, version: int, write_id: str) -> str:
    """Return where the commit lies that was put just now, if the version was free then.

    Raises:
        CommitConflictError: It was not: another commit of it had become old.
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
