"""A Delta table that is followed and committed to: the only code that commits to one.

A table is opened from the newest checkpoint that can be read, with all commits after it: those
after the third newest are kept. A gap in the commits, or a commit that can't be read, is damage. A
commit is put at exactly the version after the one that it was decided on (`commit_outcomes`).

Old commits are deleted (`log_cleaning`), in ascending order. So what is seen at a version counts
only if the file of the version before, which this process has read, is still there afterwards. If
it is not, this process was frozen for a thousand versions and two minutes: a follower opens the
table anew, and a put has outcome unknown, whatever it was told.

On a local disk a commit is flushed before it counts, and a process that reads a commit flushes what
it has not seen flushed. A table whose flush failed is never trusted again, even if a later flush
succeeds.
"""

import errno
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final
from uuid import uuid4

import pyarrow as pa

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.store.deadlines import SHORT, RootLock, within
from kafka_on_spark.store.delta.checkpoints import (
    CHECKPOINT_INTERVAL,
    delete_misleading_hint,
    read_checkpoint,
    rename_unreadable,
    write_checkpoint,
)
from kafka_on_spark.store.delta.commit_outcomes import CommitFiles, CommitOutcomes, FileStamp
from kafka_on_spark.store.delta.delta_files import (
    AddFile,
    FileEntry,
    RemoveFile,
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableSettings,
    TableState,
    checkpoint_path,
    checkpoints_in,
    commit_path,
    commit_paths,
    commit_step,
    commits_in,
    encode_commit,
    last_checkpoint,
    log_folder,
)
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.error_translation import is_failure, reason, storage_error
from kafka_on_spark.store.local_files import UnsafeFileError, make_folder
from kafka_on_spark.store.roots import RootFiles, StorageOptions, flush, is_local

CLEANER_MS: Final = 600_000
"""How long a cleaner has at least to delete what may go from a replica."""

_CONFIGURATION: Final = {
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
    "delta.enableExpiredLogCleanup": "false",
}


def tombstones_kept(delete_delay_ms: int, cleaner_ms: int = CLEANER_MS) -> dict[str, str]:
    """Return the setting of how long checkpoints keep tombstones: until a removed file may go, and
    as long again, or `cleaner_ms`, for the cleaner, which learns from them what may go.

    A longer time would cost: a busy table removes some files a second, and each of its checkpoints
    names all of that time.
    """
    kept_ms = delete_delay_ms + max(delete_delay_ms, cleaner_ms)
    return {"delta.deletedFileRetentionDuration": f"interval {kept_ms // 1000} seconds"}


def new_settings(
    schema: pa.Schema, partition_by: Sequence[str], configuration: Mapping[str, str]
) -> TableSettings:
    return TableSettings(
        table_id=str(uuid4()),
        schema=_delta_schema(schema),
        partition_by=partition_by,
        configuration={**_CONFIGURATION, **configuration},
    )


@lru_cache(maxsize=8)
def _delta_schema(schema: pa.Schema) -> str:
    # In the function: a query waits for the process that plans it, which creates no table.
    from deltalake import Schema

    return Schema.from_arrow(schema).to_json()


def make_folders(uri: str) -> list[str]:
    """Make the folder of a local table's log, the table's and its parent; return the folders that
    name them, to be flushed.

    None above: a root that was removed must not be created again.

    Raises:
        KafkaStorageError: The root does not answer, or is away.
    """
    folders = [os.path.dirname(uri), uri, log_folder(uri)]
    for folder in folders:
        try:
            within(uri, partial(make_folder, folder), SHORT)
        except OSError as error:
            raise storage_error(error, f"create a table at {uri}") from error
    return [uri, folders[0], os.path.dirname(folders[0])]


def holds_more(files: RootFiles, uri: str) -> bool:
    """Return whether a log in which version 0 was just put holds other versions: then its first
    commits were cleaned, and the one that was put is a stray."""
    names = files.names(log_folder(uri))
    return bool((commits_in(names) | checkpoints_in(names)) - {0})


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


OpenedTable = tuple[TableState, int, FileStamp | None]
"""What a table holds, the version of the checkpoint that was read (-1: none), and which file the
newest commit is."""


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
    return state, base, stamp


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


log = logging.getLogger(__name__)

# After one of these the system may drop unflushed bytes and report success for the next flush.
_UNTRUSTED_ERRNO: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


class DeltaLog:
    """One Delta table, followed commit by commit. Not safe for two threads at once: see `lock`.

    Attributes:
        uri: The table's folder.
        is_local: It lies on a disk of this machine, or on one mounted like that.
        lock: Held by each user of what this process knows of the table.
        version: The newest version that `refresh` found or `commit` wrote; -1 before either.
    """

    def __init__(self, uri: str, options: StorageOptions, *, is_flushed: bool = True) -> None:
        self.uri = uri
        self.lock = RootLock(uri)
        self.version = -1
        self.is_local = is_local(uri)
        self._options = options
        self._files = RootFiles(uri, options)
        self._commits = CommitFiles(uri, self._files)
        self._needs_flush = is_flushed and self.is_local
        self._flush_failure: str | None = None  # for good: the table is never trusted again
        self._outcomes = CommitOutcomes(self._commits, options, is_flushed=self._needs_flush)
        self._void = VoidCommits(self._files, uri)
        self._state: TableState | None = None
        self._newest: FileStamp | None = None
        self._newest_is_void = False
        self._checkpoint_version = -1
        self._turn = -1

    @classmethod
    def create(
        cls,
        uri: str,
        options: StorageOptions,
        *,
        schema: pa.Schema,
        partition_by: Sequence[str],
        configuration: Mapping[str, str],
        counters: Mapping[str, int] | None = None,
        is_flushed: bool = True,
    ) -> "DeltaLog":
        """Create the table at version 0 and leave it open; raise as `commit` does.

        On a local disk its folder and the folder's parent are made, and none above: a root that was
        removed must not be created again.

        Raises:
            CommitConflictError: There is a table.
            CommitOutcomeUnknownError: The store failed; there may be a table.
            KafkaStorageError: Nothing was written.
        """
        created = cls(uri, options, is_flushed=is_flushed)
        settings = new_settings(schema, partition_by, configuration)
        created._state = TableState()
        within(uri, lambda: created._create(settings, counters or {}))
        return created

    def _create(self, settings: TableSettings, counters: Mapping[str, int]) -> None:
        folders = make_folders(self.uri) if self.is_local else []
        if self._needs_flush:
            # Before there is a table: whoever finds one then knows that they are durable, also if
            # its maker died.
            self._flush(folders)
        self._commit("create", counters, settings=settings)
        if holds_more(self._files, self.uri):  # perhaps those of another process, after ours
            raise CommitOutcomeUnknownError(f"there is a table at {self.uri}", version=0)

    # What the table holds

    def _content(self) -> TableState:
        assert self._state is not None, "refresh first"
        return self._state

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's settings as of the last `refresh`."""
        return self._content().configuration

    def counters(self) -> Mapping[str, int]:
        return self._content().counters

    def counters_of(self, *names: str) -> list[int | None]:
        """Return some `txn` counters; None: it was never set."""
        return [self._content().counters.get(name) for name in names]

    def active_files(self) -> Iterable[FileEntry]:
        """Return the table's files, in no order."""
        return self._content().files.values()

    # Following

    def refresh(self) -> int:
        """Go on to the newest version, flushed; return it.

        Raises:
            ReplicaLostError: There is no table, or it went back.
            CorruptLogError: The log can't be read as a Delta table, or could not be flushed.
            KafkaStorageError: The root does not answer.
        """
        self.follow()
        return self.version

    def follow(self) -> list[TableCommit] | None:
        """Go on to the newest version, flushed; return the commits since the last time, or None if
        the table was opened anew.

        Raises: as `refresh`.
        """
        if self._flush_failure is not None:
            raise CorruptLogError(f"the table at {self.uri} is not durable: {self._flush_failure}")
        try:
            if self._state is not None:
                commits = self._read_following(self._state)
                if commits is not None:
                    return commits
            self._open()
        except BaseException:
            self._state = None  # it may be half way between two versions
            raise
        return None

    def _read_following(self, state: TableState) -> list[TableCommit] | None:
        """Apply the commits after the newest that is known; None if that one is not there."""
        commits: list[TableCommit] = []
        void: list[int] = []
        newest, known = self._newest, state.version
        while True:
            found = read_step(self._commits, state.version + 1)
            if self._commits.stamp(state.version) != newest:
                return None
            if found is None:
                break
            state.apply(found.commit)
            commits.append(found.commit)
            void += [state.version] if found.is_empty else []
            newest = found.stamp
        self._void.check(void)
        try:
            self._count(range(known + 1, state.version + 1), newest)
        except KafkaStorageError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            return None  # cleaned since they were read
        return commits

    def _count(self, versions: range, newest: FileStamp | None) -> None:
        """Flush commits, which their writers may not have flushed, and count them."""
        if versions and self._needs_flush:
            self._flush([*(commit_path(self.uri, each) for each in versions), log_folder(self.uri)])
        self._newest = newest
        self.version = self._content().version
        self._newest_is_void = self._void.knows(self.version)

    def _flush(self, paths: Sequence[str]) -> None:
        """Make files and folders of the table durable.

        Raises:
            KafkaStorageError: The disk failed.
        """
        try:
            flush(paths)
        except KafkaStorageError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _UNTRUSTED_ERRNO:
                self._flush_failure = error.message
            raise

    def _open(self) -> None:
        self._state = None
        state, checkpoint, newest = open_table(self._commits, self._void)
        has_lost_newest = self._void.knows(self.version) and not self._newest_is_void
        if state.version < self.version or has_lost_newest:
            raise ReplicaLostError(
                f"the table at {self.uri} is gone or went back",
                version=state.version,
                seen=self.version,
            )
        self._state = state
        # Not below one that failed: that is tried again when the next one is due.
        self._checkpoint_version = max(self._checkpoint_version, checkpoint)
        if self._needs_flush and checkpoint >= 0:
            self._flush([checkpoint_path(self.uri, checkpoint)])
        first = max(checkpoint, 0)
        self._count(range(first, state.version + 1), newest)

    def is_still_at(self, version: int) -> bool:
        """Return whether `version`, the newest that was seen, is there and has no successor.

        It needs no lock, since it changes nothing.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        newest = self._newest
        if self._flush_failure is not None or self._state is None or self.version != version:
            return False
        try:
            following, own = self._commits.stamps((version + 1, version))
        except UnsafeFileError:
            return False  # opening the table says what is wrong
        return following is None and own is not None and own == newest

    def reopen_next_time(self) -> None:
        """Have the next refresh open the table again; `version` stays known."""
        self._state = None

    # Committing

    def commit(
        self,
        at_version: int,
        *,
        operation: str,
        files: Iterable[AddFile | RemoveFile] = (),
        counters: Mapping[str, int],
    ) -> None:
        """Commit at exactly the version after `at_version`, or fail and change nothing.

        Raises:
            CommitConflictError: That version is taken. Nothing was written.
            CommitOutcomeUnknownError: That version is free so far, and ours may still land; or
                nobody can tell any more what stood there.
            KafkaStorageError: The root refused the commit. Nothing was written.
        """
        if at_version != self.version or self._state is None:
            raise CommitConflictError("decided on an old version", version=at_version + 1)
        if self.is_local and self._commits.stamp(at_version) != self._newest:
            # Another table may lie there now, say below the mount of a disk that is away.
            raise CommitConflictError(
                f"the table at {self.uri} was removed", version=at_version + 1
            )
        self._commit(operation, counters, files=files)

    def _commit(
        self,
        operation: str,
        counters: Mapping[str, int],
        *,
        settings: TableSettings | None = None,
        files: Iterable[AddFile | RemoveFile] = (),
    ) -> None:
        state, write_id = self._content(), uuid4().hex
        version = state.version + 1
        content = encode_commit(
            write_id=write_id,
            operation=operation,
            now_ms=time.time_ns() // 1_000_000,
            settings=settings,
            files=files,
            counters=counters,
        )
        try:
            is_put = self._outcomes.put(version, write_id, content)
            self._flush_put(version, is_put=is_put)
        except CommitConflictError:
            self._stamp_after_put(version)
            raise
        self._newest = self._stamp_after_put(version)
        step = commit_step(content, version, commit_path(self.uri, version))
        assert isinstance(step, TableCommit), "our own commits can be parsed"
        state.apply(step)
        self.version = version
        self._newest_is_void = False
        if version % CHECKPOINT_INTERVAL == 0:
            self._turn = version

    def _flush_put(self, version: int, *, is_put: bool) -> None:
        """Make our commit durable; a put whose answer was lost may not have flushed its file."""
        if not self._needs_flush:
            return
        own = [] if is_put else [commit_path(self.uri, version)]
        try:
            self._flush([*own, log_folder(self.uri)])
        except KafkaStorageError as error:
            raise CommitOutcomeUnknownError(
                f"a commit may be lost: {error.message}", version=version
            ) from error

    def _stamp_after_put(self, version: int) -> FileStamp:
        """Return which file stands at `version`, if the one before it still does.

        Raises:
            CommitOutcomeUnknownError: It does not: what was seen at `version` proves nothing.
        """
        try:
            # The one before last: only what is there after ours was looked at vouches for ours.
            own, before = self._commits.stamps((version, max(version - 1, 0)))
        except KafkaStorageError as error:
            raise CommitOutcomeUnknownError(error.message, version=version) from error
        if own is None or (version and before != self._newest):
            self.reopen_next_time()
            raise CommitOutcomeUnknownError(
                f"the commits of {self.uri} were cleaned, or the table was removed, while this"
                " process committed",
                version=version,
            )
        return own

    # Upkeep

    def may_need_checkpoint(self) -> bool:
        """Return whether a checkpoint may be due that this process writes. It needs no lock.

        Of many committers one writes it: the process that has put the version at which it is due.
        If it is not there half an interval later, that process may have died, or has put the
        version through a handle that writes none: then it is everybody's turn.
        """
        due = self.version - self.version % CHECKPOINT_INTERVAL
        if self._state is None or self._flush_failure or due <= max(self._checkpoint_version, 0):
            return False
        is_overdue = self.version - due >= max(CHECKPOINT_INTERVAL // 2, 1)
        return due <= self._turn or is_overdue

    def checkpoint_if_due(self) -> bool:
        """Write a checkpoint if one is due and this process's turn, and delete the commits that it
        makes needless; return whether it was this process's turn. Commits go on meanwhile; a
        failure costs speed and space only."""
        if not self.may_need_checkpoint():
            return False
        try:
            with self.lock:
                state, newest = self._due_checkpoint()
            if state is None:
                return False
            if self.is_local and not self._needs_flush:
                # A checkpoint must not outlive the commits that it sums up.
                self._flush(commit_paths(self._files, self.uri, newest, state.version))
            write_checkpoint(self._files, self.uri, state, self._options)
        except BaseException as error:
            if not is_failure(error):
                raise
            log.warning("no checkpoint of %s: %s", self.uri, reason(error, self._options))
        else:
            try:
                clean_log(self._files, self.uri)
            except (KafkaStorageError, OSError) as error:  # what is left takes space only
                log.warning("commits of %s stay: %s", self.uri, reason(error, self._options))
        return True

    def _due_checkpoint(self) -> tuple[TableState | None, int]:
        """Return of what to write a checkpoint now, if of anything, and the last one's version."""
        if not self.may_need_checkpoint():  # another thread writes it
            return None, -1
        state, newest = self._content(), last_checkpoint(self._files, self.uri)
        if newest >= state.version - state.version % CHECKPOINT_INTERVAL:
            self._checkpoint_version = newest
            return None, newest
        # After a failure, the next try is when the next one is due.
        self._checkpoint_version = state.version
        return state.copy(), newest
