"""A Delta table that is followed and committed to: the only code that puts a commit into one.

A table is opened from the newest checkpoint that can be read, with all commits after it. A gap in
the commits, or a commit that can't be read, is damage.

A commit is one put-if-absent of one small file with a write id, at exactly the version after the
one that it was decided on. After any error the commit file at that version is read back, because
an error's type does not tell what happened: with our id it is committed, with another id it is a
conflict, and without a file it is unknown, since a put that timed out may still land. It is put
again until a commit stands at that version, ours or another's. A store that refuses the caller is
asked once more, for credentials that were renewed; waiting gives no permission. The outcome stays
unknown: its client may have put it before.

What is seen at a version counts only if the file of the version before, which this process has
read, is still there afterwards (design note 2). If it is not, a follower opens the table anew, and
a put has outcome unknown, whatever it was told. On a local disk a commit is flushed before it
counts, whoever put it (design note 3).
"""

import errno
import json
import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, TypeVar
from uuid import uuid4

import pyarrow as pa

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.store.counts import CHECKPOINT, UPKEEP_FAILURES
from kafka_on_spark.store.deadlines import RootLock, SystemClock, pauses_ms, within
from kafka_on_spark.store.delta.checkpoints import (
    CHECKPOINT_INTERVAL,
    before,
    newest_checkpoint,
    write_checkpoint,
)
from kafka_on_spark.store.delta.delta_files import (
    TOMBSTONES_KEPT,
    FileEntry,
    TableCommit,
    TableDamage,
    TableSettings,
    TableState,
    checkpoint_path,
    checkpoints_in,
    commit_path,
    commit_step,
    commits_in,
    encode_commit,
    last_checkpoint,
    log_folder,
    write_id_of,
)
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.error_translation import reason, storage_error
from kafka_on_spark.store.local_files import (
    COMMIT_BYTES_MAX,
    FLUSHES,
    NotPutError,
    UnsafeFileError,
)
from kafka_on_spark.store.roots import (
    READ_AT_ONCE,
    FileStamp,
    RootFiles,
    StorageOptions,
    is_local,
)

T = TypeVar("T")

log = logging.getLogger(__name__)

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
    return {TOMBSTONES_KEPT: f"interval {kept_ms // 1000} seconds"}


_DELTA_TYPES: Final = {
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


@lru_cache(maxsize=8)
def delta_schema(schema: pa.Schema) -> str:
    """Return a schema as Delta writes it into a table's metadata."""
    return json.dumps(_delta_struct(schema), separators=(",", ":"))


def _delta_struct(fields: Iterable[pa.Field]) -> dict[str, object]:
    columns = [
        {"name": each.name, "type": _delta_type(each.type), "nullable": each.nullable}
        | {"metadata": {}}
        for each in fields
    ]
    return {"type": "struct", "fields": columns}


def _delta_type(kind: pa.DataType) -> object:
    if pa.types.is_struct(kind):
        return _delta_struct(kind)
    if pa.types.is_list(kind):
        element = kind.value_field
        nullable = {"containsNull": element.nullable}
        return {"type": "array", "elementType": _delta_type(element.type)} | nullable
    return _DELTA_TYPES[kind]


def holds_more(files: RootFiles, uri: str) -> bool:
    """Return whether a log in which version 0 was just put holds other versions: then its first
    commits were cleaned, and the one that was put is a stray."""
    names = files.names(log_folder(uri))
    return bool((commits_in(names) | checkpoints_in(names)) - {0})


RECHECK_SECONDS: Final = 2.0
"""Between the two checks that find a commit void: one that was being written has bytes by then."""


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """The commit files of one table.

    Attributes:
        void: Versions whose file was found without bytes, since a power cut may keep a file's name
            and lose its bytes. Each is a version without actions, to delta-rs, Spark and Polars
            alike. Nothing is removed or put in its place; the next commit is the version after it.
            No process has counted such a commit, since a process flushes a commit and checks its
            bytes before it counts it. Had one been counted and emptied later, the log would end
            below the high watermark, or have a gap.
    """

    uri: str
    files: RootFiles
    void: set[int] = field(default_factory=set)

    def put(self, version: int, content: bytes, *, is_flushed: bool) -> FileStamp | None:
        """Put a commit if its version is free; return which file it is, () if only a look tells,
        None if there is one.

        On a store the file may be this call's: its first put, whose answer was lost.

        Raises:
            NotPutError: It is certainly not put: the disk refused it, or it is larger than a commit
                can be.
            KafkaStorageError: It may be put, now or later.
        """
        path = commit_path(self.uri, version)
        if len(content) > COMMIT_BYTES_MAX:  # whoever read it would find the table damaged
            error = KafkaStorageError(
                f"{path} was not written: it would have {len(content)} bytes, and a commit has"
                f" {COMMIT_BYTES_MAX} at most"
            )
            raise NotPutError(error)
        return self.files.put_if_absent(path, content, is_flushed=is_flushed)

    def read(self, version: int) -> bytes | None:
        """Return a commit's bytes, None if there is none."""
        return self.files.read(commit_path(self.uri, version), COMMIT_BYTES_MAX)

    def stamps(self, *versions: int, in_any_order: bool = False) -> list[FileStamp | None]:
        """Return which files stand at some versions; as `RootFiles.stamps`."""
        paths = [commit_path(self.uri, each) for each in versions]
        return self.files.stamps(paths, in_any_order=in_any_order)

    def check_void(self, versions: Sequence[int]) -> None:
        """Check that commits that were seen without bytes still have none.

        Raises:
            KafkaStorageError: One was being written, or the root does not answer.
        """
        fresh = [each for each in versions if each not in self.void]
        if not fresh:
            return
        time.sleep(RECHECK_SECONDS)
        for version in fresh:
            if self.files.size(commit_path(self.uri, version)) != 0:
                raise KafkaStorageError(
                    f"the commit {version} of {self.uri} was being written: try again"
                )
        self.void.update(fresh)


RESOLVE_SECONDS: Final = 30.0
"""How long a commit with an unknown outcome is put again before the caller gets an error."""

RESOLVE_SECONDS_LOCAL: Final = 1.0
"""The same on a local disk, where no request can be under way any more."""


def until_found(ask: Callable[[], T | None], seconds: float) -> T | None:
    """Ask once, and again for so long while the answer is None."""
    clock = SystemClock()
    last_ms = clock.monotonic_ms() + seconds * 1000
    for pause_ms in pauses_ms(50, 2_000):
        found = ask()
        if found is not None or clock.monotonic_ms() >= last_ms:
            break
        clock.sleep_ms(random.uniform(0, pause_ms))  # others may put at the same time
    return found


LISTINGS_MAX: Final = 3
"""How often a log is listed in which a commit is missing before it is called damaged: files come
and go while a local folder is listed, and are cleaned before they are read."""


class _GoneError(Exception):
    """A commit was not there when it was read, and is not the newest."""


def open_table(log: CommitFiles) -> tuple[TableState, int, FileStamp | None]:
    """Open a table at its newest version: return what it holds, the version of the checkpoint that
    was read (-1: none), and which file the newest commit is.

    Raises:
        ReplicaLostError: There is no table.
        CorruptLogError: A commit is missing or damaged, or the table's protocol is not ours.
        KafkaStorageError: The root does not answer.
    """
    for number in range(LISTINGS_MAX):
        try:
            return _open_listed(log)
        except _GoneError as error:
            if number == LISTINGS_MAX - 1:
                raise CorruptLogError("a commit is missing", path=str(error)) from None
    raise AssertionError("a loop without an end")


def _open_listed(log: CommitFiles) -> tuple[TableState, int, FileStamp | None]:
    names = log.files.names(log_folder(log.uri))
    commits = commits_in(names)
    checkpoints = checkpoints_in(names)
    if not commits | checkpoints:
        raise ReplicaLostError(f"there is no table at {log.uri}")
    found = newest_checkpoint(log.files.read, log.uri, checkpoints)
    state = TableState() if found is None else TableState.of(found)
    base = state.version
    newest = max(commits | {base})
    first = max(base, 0)
    # The first is looked at before and after all else: as long as it is there, none was cleaned.
    looked_at = [first, newest] if newest > first else [first]
    oldest, *own = log.stamps(*looked_at, in_any_order=True)
    stamp = own[0] if own else oldest
    empty = []
    if oldest is not None:
        for commit, content in _read(log, range(base + 1, newest + 1)):
            state.apply(commit)
            empty += [] if content else [commit.version]
    if None in (oldest, stamp) or state.version < newest or log.stamps(first) != [oldest]:
        # Cleaned; or its writer had seen commits that the disk has lost.
        is_short = oldest is not None and state.version < newest
        raise _GoneError(commit_path(log.uri, state.version + 1 if is_short else first))
    log.check_void(empty)
    if not state.configuration:
        raise CorruptLogError("a table's first commit says nothing", path=log_folder(log.uri))
    return state, base, stamp


def _read(log: CommitFiles, versions: range) -> Iterator[tuple[TableCommit, bytes]]:
    """Yield commits in order, up to the first that is not there; a store's are fetched side by
    side."""
    paths = [commit_path(log.uri, version) for version in versions]
    found = log.files.read_all(paths, COMMIT_BYTES_MAX)
    for version in versions:
        content = next(found)
        if content is None:
            return
        yield _commit_of(log, version, content), content


def _read_on(log: CommitFiles, first: int) -> Iterator[tuple[TableCommit, bytes]]:
    """Yield the commits from a version on, in order, up to the newest: most often it is one."""
    last, count = first - 1, 2
    while True:
        bound = last + count
        for commit, content in _read(log, range(last + 1, bound + 1)):
            last = commit.version
            yield commit, content
        if last < bound:
            return
        count = min(2 * count, READ_AT_ONCE)


@contextmanager
def _unsafe_is_damage() -> Iterator[None]:
    """Raise CorruptLogError for a file that is no regular one, or larger than a commit can be."""
    try:
        yield
    except UnsafeFileError as error:
        raise CorruptLogError(error.message, **error.context) from error


def _commit_of(log: CommitFiles, version: int, content: bytes) -> TableCommit:
    step = commit_step(content, version, commit_path(log.uri, version))
    if not isinstance(step, TableCommit):
        raise CorruptLogError(
            step.sentence if isinstance(step, TableDamage) else "a checkpoint is no commit"
        )
    return step


# After one of these the system may drop unflushed bytes and report success for the next flush.
_UNTRUSTED_ERRNO: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


class DeltaLog:
    """One Delta table, followed commit by commit. Not safe for two threads at once: see `lock`.

    Attributes:
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
        self._state: TableState | None = None
        self._newest: FileStamp | None = None
        self._newest_is_void = False
        self._checkpoint_version = -1
        self._turn = -1
        self._following: tuple[int, FileStamp | None] = (-1, None)

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
        """
        created = cls(uri, options, is_flushed=is_flushed)
        settings = TableSettings(
            table_id=str(uuid4()),
            schema=delta_schema(schema),
            partition_by=partition_by,
            configuration={**_CONFIGURATION, **configuration},
        )
        created._state = TableState()
        within(uri, lambda: created._create(settings, counters or {}))
        return created

    def _create(self, settings: TableSettings, counters: Mapping[str, int]) -> None:
        above = os.path.dirname(self.uri)
        self._files.make_folders([above, self.uri, log_folder(self.uri)])
        if self._needs_flush:
            # Before there is a table: whoever finds one then knows that they are durable, also if
            # its maker died.
            self._flush([self.uri, above, os.path.dirname(above)])
        self.commit(-1, operation="create", counters=counters, settings=settings)
        if holds_more(self._files, self.uri):  # perhaps those of another process, after ours
            raise CommitOutcomeUnknownError(f"there is a table at {self.uri}", version=0)

    # What the table holds

    def _content(self) -> TableState:
        assert self._state is not None, "refresh first"
        return self._state

    @property
    def configuration(self) -> Mapping[str, str]:
        return self._content().configuration

    def counters(self) -> Mapping[str, int]:
        return self._content().counters

    def counters_of(self, *names: str) -> list[int | None]:
        """Return some `txn` counters; None: it was never set."""
        return [self._content().counters.get(name) for name in names]

    def active_files(self) -> Iterable[FileEntry]:
        """Return the table's files, in no order."""
        return self._content().files.values()

    def tombstones(self) -> dict[str, int]:
        """Return the files that the table has removed, as far as its log still tells, and when (ms
        since 1970 UTC, by the clock of who did it)."""
        checkpoints = checkpoints_in(self._files.names(log_folder(self.uri)))
        return before(self._files, self.uri, checkpoints)[1] | self._content().tombstones

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
            with _unsafe_is_damage():
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
        known, newest = state.version, self._newest
        following = self._following_seen(known) or self._commits.stamps(known + 1)[0]
        self._following = (-1, None)
        if following is not None:
            for commit, content in _read_on(self._commits, known + 1):
                state.apply(commit)
                commits.append(commit)
                void += [] if content else [commit.version]
        if commits:
            is_one = len(commits) == 1
            newest = following if is_one else self._commits.stamps(state.version)[0]
        # Last: while it is there, none that follow it were cleaned, whatever was seen of them.
        if self._commits.stamps(known) != [self._newest] or newest is None:
            return None
        self._commits.check_void(void)
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
        self._newest_is_void = self.version in self._commits.void

    def _flush(self, paths: Sequence[str]) -> None:
        try:
            self._files.flush(paths)
        except KafkaStorageError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _UNTRUSTED_ERRNO:
                self._flush_failure = error.message
            raise

    def _open(self) -> None:
        self._state = None
        state, checkpoint, newest = open_table(self._commits)
        has_lost_newest = self.version in self._commits.void and not self._newest_is_void
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
        """
        newest = self._newest
        if self._flush_failure is not None or self._state is None or self.version != version:
            return False
        if self._following_seen(version) is not None:
            return False
        try:
            following, own = self._commits.stamps(version + 1, version)
        except UnsafeFileError:
            return False  # opening the table says what is wrong
        self._following = version, following
        return following is None and own is not None and own == newest

    def has_successor(self, version: int) -> bool:
        """Return whether there is a commit after `version`, or may be, by one look. If it was
        cleaned, as it may be from `COMMITS_KEPT_MS` on, the answer is no."""
        if self._flush_failure is not None or self._state is None or self.version != version:
            return True
        try:
            [following] = self._commits.stamps(version + 1)
        except UnsafeFileError:
            return True  # opening the table says what is wrong
        self._following = version, following
        return following is not None

    def _following_seen(self, version: int) -> FileStamp | None:
        """Return which commit was seen after `version`, None if none was."""
        at, following = self._following
        return following if at == version else None

    def reopen_next_time(self) -> None:
        """Have the next refresh open the table again; `version` stays known."""
        self._state = None

    # Committing

    def commit(
        self,
        at_version: int,
        *,
        operation: str,
        adds: Iterable[FileEntry] = (),
        removes: Iterable[FileEntry] = (),
        counters: Mapping[str, int],
        settings: TableSettings | None = None,
    ) -> None:
        """Commit at exactly the version after `at_version`, or fail and change nothing.
        `settings`: of version 0 only.

        Raises:
            CommitConflictError: That version is taken. Nothing was written.
            CommitOutcomeUnknownError: That version is free so far, and ours may still land; or
                nobody can tell any more what stood there.
            KafkaStorageError: The root refused the commit. Nothing was written.
        """
        state, version, adds, removes = self._state, at_version + 1, tuple(adds), tuple(removes)
        if at_version != self.version or state is None or self._flush_failure is not None:
            raise CommitConflictError("decided on an old version", version=version)
        if self.is_local and version:
            following, newest = self._commits.stamps(version, at_version)
            if newest != self._newest:
                # Another table may lie there now, say below the mount of a disk that is away.
                raise CommitConflictError(f"the table at {self.uri} was removed", version=version)
            if following is not None:  # before a file is written and flushed for nothing
                raise CommitConflictError("version is taken", version=version)
        write_id, now_ms = uuid4().hex, time.time_ns() // 1_000_000
        content = encode_commit(
            write_id=write_id,
            operation=operation,
            now_ms=now_ms,
            settings=settings,
            adds=adds,
            removes=removes,
            counters=counters,
        )
        try:
            put = self._put(version, write_id, content)
        except CommitConflictError:
            self._following = at_version, self._stamp_after_put(version, is_taken=True)
            raise
        self._newest = self._stamp_after_put(version, put)
        state.apply(
            TableCommit(
                version=version,
                operation=operation,
                write_id=write_id,
                adds=adds,
                removes=tuple(each.path for each in removes),
                counters=counters,
                configuration=None if settings is None else settings.configuration,
                time_ms=now_ms,
            )
        )
        self.version = version
        self._newest_is_void = False
        if version % CHECKPOINT_INTERVAL == 0:
            self._turn = version

    def _put(self, version: int, write_id: str, content: bytes) -> FileStamp:
        """Put a commit until it stands at `version`, flushed; return which file it is, () if only
        a look tells.

        Raises:
            CommitConflictError: Another commit stands there.
            CommitOutcomeUnknownError: Ours may still land, or may be lost.
            KafkaStorageError: Nothing was put; its kind says whether the root refuses the caller,
                or is full.
        """
        error: KafkaStorageError | None = None
        put: FileStamp | None = None
        try:
            put = self._commits.put(version, content, is_flushed=self._needs_flush)
        except NotPutError as failed:
            raise failed.error from failed.__cause__
        except KafkaStorageError as failed_call:
            error = failed_call
        except Exception as raised:
            error = storage_error(raised, f"commit to {self.uri}", self._options)
        if put is None:
            self._resolve(version, write_id, content, error)
        if self._needs_flush:
            # A put whose answer was lost may not have flushed its file.
            own = [commit_path(self.uri, version)] if put is None else []
            try:
                self._flush([*own, log_folder(self.uri)])
            except KafkaStorageError as error:
                raise CommitOutcomeUnknownError(
                    f"a commit may be lost: {error.message}", version=version
                ) from error
        return put or ()

    def _resolve(
        self, version: int, write_id: str, content: bytes, error: KafkaStorageError | None
    ) -> None:
        """Return if the commit at `version` is ours; raise the outcome otherwise."""
        found = self._write_id_at(version)
        if found is None:
            put_again = partial(self._put_again, version, content)
            seconds = RESOLVE_SECONDS_LOCAL if self.is_local else RESOLVE_SECONDS
            is_refused = isinstance(error, RootAccessDeniedError)
            found = until_found(put_again, 0.0 if is_refused else seconds)
        if found is None:
            why = "what stands there can't be read" if error is None else error.message
            raise CommitOutcomeUnknownError(
                f"the store failed while committing to {self.uri}: {why}", version=version
            ) from error
        if found != write_id:
            raise CommitConflictError("version is taken", version=version) from error

    def _put_again(self, version: int, content: bytes) -> str | None:
        try:
            self._commits.put(version, content, is_flushed=self._needs_flush)
        except Exception as error:
            log.debug("commit %s of %s: %s", version, self.uri, reason(error, self._options))
        return self._write_id_at(version)

    def _write_id_at(self, version: int) -> str | None:
        """Return the write id of the commit at `version`, "" if it has none; None if there is no
        commit or it can't be read."""
        try:
            found = self._commits.read(version)
        except KafkaStorageError:
            return None
        return None if found is None else write_id_of(found)

    def _stamp_after_put(
        self, version: int, put: FileStamp = (), *, is_taken: bool = False
    ) -> FileStamp:
        """Return which file stands at `version`, `put` unless that is (), if the one before it
        still does. `is_taken`: by a commit of others, which whoever follows it looks behind again.

        Raises:
            CommitOutcomeUnknownError: It does not: what was seen at `version` proves nothing.
        """
        own: FileStamp | None = put
        try:
            # In this order: ours continues the one before only if that is there afterwards.
            if own:
                before = self._commits.stamps(version - 1)[0] if version else None
            else:
                both = version, max(version - 1, 0)
                own, before = self._commits.stamps(*both, in_any_order=is_taken)
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

    def checkpoint_if_due(self, *, cleans: bool = True) -> bool:
        """Write a checkpoint if one is due and this process's turn, and delete the commits that it
        makes needless, if it `cleans`; return whether it was this process's turn. Commits go on
        meanwhile; a failure costs speed and space only."""
        if not self.may_need_checkpoint():
            return False
        try:
            with self.lock:
                state, newest = self._due_checkpoint()
            if state is None:
                return False
            if self.is_local and not self._needs_flush:
                # A checkpoint must not outlive the commits that it sums up.
                folder = log_folder(self.uri)
                there = commits_in(self._files.names(folder))
                due = sorted(each for each in there if newest <= each <= state.version)
                self._flush([*(commit_path(self.uri, each) for each in due), folder])
            write_checkpoint(self._files, self.uri, state, time.time_ns() // 1_000_000)
        except Exception as error:
            FLUSHES.add(UPKEEP_FAILURES, kind=CHECKPOINT)
            log.warning("no checkpoint of %s: %s", self.uri, reason(error, self._options))
        else:
            try:
                if cleans:
                    clean_log(self._files, self.uri)
            except KafkaStorageError as error:  # what is left takes space only
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
