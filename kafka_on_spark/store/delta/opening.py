"""Opens a Delta table: the newest checkpoint that can be read, and all commits after it.

A checkpoint that can't be read is passed over for an older one: the commits after the third newest
are kept. A gap in the commits, or a commit that can't be read, is damage.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError, ReplicaLostError
from kafka_on_spark.store.delta.checkpoints import (
    delete_misleading_hint,
    read_checkpoint,
    rename_unreadable,
)
from kafka_on_spark.store.delta.commit_files import CommitFiles, FileStamp
from kafka_on_spark.store.delta.delta_files import (
    checkpoints_in,
    commit_path,
    commits_in,
    log_folder,
)
from kafka_on_spark.store.delta.history import TableCheckpoint, TableCommit, TableDamage
from kafka_on_spark.store.delta.log_parsing import commit_step
from kafka_on_spark.store.delta.table_state import TableState
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.roots import RootFiles, is_local

LISTINGS_MAX: Final = 3
"""How often a log is listed in which a commit is missing before it is called damaged: files come
and go while a local folder is listed, and are cleaned before they are read."""

READ_AT_ONCE: Final = 64
"""Commits whose bytes a store is asked for at once: its answer takes long, a disk's doesn't."""


RECHECK_SECONDS: Final = 2.0
"""Between the two checks that find a commit void: one that was being written has bytes by then."""


class VoidCommits:
    """The void commits of one table that this process has found: without bytes, since a power cut
    may keep a file's name and lose its bytes.

    Each is a version without actions, to delta-rs, Spark and Polars alike. Nothing is removed or
    put in its place; the next commit is the version after it. No process has counted such a commit,
    since a process flushes a commit and checks its bytes before it counts it. Had one been counted
    and emptied later, the log would end below the high watermark, or have a gap.
    """

    def __init__(self, files: RootFiles, uri: str) -> None:
        self._files = files
        self._uri = uri
        self._known: set[int] = set()

    def knows(self, version: int) -> bool:
        """Return whether a commit was found void."""
        return version in self._known

    def check(self, versions: Sequence[int]) -> None:
        """Check that commits that were seen without bytes still have none.

        Raises:
            KafkaStorageError: One was being written, or the root does not answer.
        """
        fresh = [each for each in versions if each not in self._known]
        if not fresh:
            return
        time.sleep(RECHECK_SECONDS)
        for version in fresh:
            if self._files.size(commit_path(self._uri, version)) != 0:
                raise KafkaStorageError(
                    f"the commit {version} of {self._uri} was being written: try again"
                )
        self._known.update(fresh)


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A table as it was opened.

    Attributes:
        state: What it holds.
        checkpoint: The version of the checkpoint that was read; -1: none.
        newest: Which file the newest commit is.
    """

    state: TableState
    checkpoint: int
    newest: FileStamp | None


@dataclass(frozen=True, slots=True)
class ReadCommit:
    """A commit as it was read.

    Attributes:
        commit: What it says.
        stamp: Which file it is; None: that was not asked.
        is_empty: It has no bytes.
    """

    commit: TableCommit
    stamp: FileStamp | None
    is_empty: bool


class _GoneError(Exception):
    """A commit was not there when it was read, and is not the newest."""


def open_table(log: CommitFiles, void: VoidCommits) -> OpenedTable:
    """Open a table at its newest version.

    Raises:
        ReplicaLostError: There is no table.
        CorruptLogError: A commit is missing or damaged, or the table's protocol is not ours.
        KafkaStorageError: The root does not answer.
    """
    for number in range(LISTINGS_MAX):
        try:
            return _open_listed(log, void)
        except _GoneError as error:
            if number == LISTINGS_MAX - 1:
                raise CorruptLogError("a commit is missing", path=str(error)) from None
    raise AssertionError("a loop without an end")


def _open_listed(log: CommitFiles, void: VoidCommits) -> OpenedTable:
    names = log.files.names(log_folder(log.uri))
    commits = commits_in(names)
    checkpoints = checkpoints_in(names)
    if not commits | checkpoints:
        raise ReplicaLostError(f"there is no table at {log.uri}")
    state, base = _newest_state(log, sorted(checkpoints, reverse=True))
    if is_local(log.uri):
        # A process that may only read leaves it to others.
        with suppress(KafkaStorageError):
            delete_misleading_hint(log.files, log.uri)
    newest = max(commits | {base})
    first = max(base, 0)
    stamp = oldest = log.stamp(first)
    if stamp is None:
        # Cleaned; or its writer had seen commits that the disk has lost.
        raise _GoneError(commit_path(log.uri, first))
    empty = []
    for step in _read(log, range(base + 1, newest + 1)):
        state.apply(step.commit)
        stamp = step.stamp
        empty += [step.commit.version] if step.is_empty else []
    if log.stamp(first) != oldest:
        raise _GoneError(commit_path(log.uri, first))
    void.check(empty)
    if not state.configuration:
        raise CorruptLogError("a table's first commit says nothing", path=log_folder(log.uri))
    return OpenedTable(state, base, stamp)


def _read(log: CommitFiles, versions: range) -> Iterator[ReadCommit]:
    """Yield commits in order. Which file it is is asked of the newest only: as long as the oldest
    is there, none of them was cleaned.

    Raises:
        _GoneError: One is not there.
        CorruptLogError: One can't be read as a commit.
    """
    count = 1 if is_local(log.uri) else READ_AT_ONCE
    for first in range(versions.start, versions.stop - 1, count):
        some = range(first, min(first + count, versions.stop - 1))
        with _unsafe_is_damage():
            found = log.contents(some)
        for version, content in zip(some, found, strict=True):
            if content is None:
                raise _GoneError(commit_path(log.uri, version))
            yield ReadCommit(_commit_of(log, version, content), None, not content)
    if versions:
        newest = read_step(log, versions[-1])
        if newest is None:
            raise _GoneError(commit_path(log.uri, versions[-1]))
        yield newest


@contextmanager
def _unsafe_is_damage() -> Iterator[None]:
    """Raise CorruptLogError for a file that is no regular one, or larger than a commit can be."""
    try:
        yield
    except UnsafeFileError as error:
        raise CorruptLogError(error.message, **error.context) from error


def read_step(log: CommitFiles, version: int) -> ReadCommit | None:
    """Return a commit as it was read; None if there is none.

    Raises:
        CorruptLogError: It can't be read as a commit.
        KafkaStorageError: The root does not answer.
    """
    with _unsafe_is_damage():
        found = log.read(version)
    if found is None:
        return None
    commit = _commit_of(log, version, found.content)
    return ReadCommit(commit, found.stamp, not found.content)


def _commit_of(log: CommitFiles, version: int, content: bytes) -> TableCommit:
    step = commit_step(content, version, commit_path(log.uri, version))
    if not isinstance(step, TableCommit):
        raise CorruptLogError(
            step.sentence if isinstance(step, TableDamage) else "a checkpoint is no commit"
        )
    return step


def _newest_state(log: CommitFiles, checkpoints: Sequence[int]) -> tuple[TableState, int]:
    """Return the state of the newest checkpoint that can be read, and its version."""
    for version in checkpoints:
        step = read_checkpoint(log.files, log.uri, version)
        if isinstance(step, TableCheckpoint):
            return TableState.of(step), version
        rename_unreadable(log.files, log.uri, version)
    return TableState(), -1
