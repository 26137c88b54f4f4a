"""The conditional commit: the only code that commits to a Delta table.

A Delta append is *not* a compare-and-swap by default: delta-rs rebases a stale append onto the
newest version and reports success. So every commit passes ``max_commit_retries=0`` on a handle
at the version it was decided on, and carries a write id. After any exception the commit file at
that version is read back, because an error's type does not tell what happened: with our id it is
committed, with another id it is a conflict, and without a file it is unknown, since a put that
timed out may still land. An unknown outcome is resolved by putting the same commit again until
a commit stands at that version, ours or another's.

delta-rs never flushes: on a local disk this module flushes the commit file and its folder before a
commit counts, and a process that opens a table flushes what it has not seen flushed. A table whose
flush failed is never trusted again, even if a later flush succeeds.
"""

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.storage.calls.deadlines import RootLock, long_call_seconds, within
from kafka_on_spark.storage.calls.error_translation import is_failure, is_refused, storage_error
from kafka_on_spark.storage.calls.retrying import until_found
from kafka_on_spark.storage.delta.commit_contents import read_counters
from kafka_on_spark.storage.delta.commit_properties import (
    HOOKS_OFF,
    commit_properties,
    delta_schema,
)
from kafka_on_spark.storage.delta.delta_files import (
    checkpoint_path,
    checkpoint_version,
    commit_path,
    commit_version,
    last_checkpoint,
    log_folder,
    newest_paths,
)
from kafka_on_spark.storage.delta.delta_handle import TableHandle
from kafka_on_spark.storage.delta.old_commits import (
    commit_size,
    commit_sizes,
    committed_path,
    flush_unless_old,
    has_moved,
    is_old,
    move_old_commits,
    write_id_at,
)
from kafka_on_spark.storage.delta.void_commits import VoidCommits
from kafka_on_spark.storage.roots.local_files import UnsafeFileError
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions, flush, is_local, reason

log = logging.getLogger(__name__)

CHECKPOINT_INTERVAL: Final = 10
"""Commits between checkpoints: 5 and 10 cost the same, 20 and 100 more."""

RESOLVE_SECONDS: Final = 30.0
"""How long a commit with an unknown outcome is put again before the caller gets an error."""

RESOLVE_SECONDS_LOCAL: Final = 1.0
"""The same on a local disk, where no request can be under way any more."""

# After one of these the system may drop unflushed bytes and report success for the next flush.
_UNTRUSTED_ERRNO: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT)

_FLUSH_ATTEMPTS_MAX: Final = 3


class DeltaLog:
    """One Delta table with a handle that stays open. Not safe for two threads at once: see `lock`.

    Attributes:
        uri: The table's folder.
        is_local: It lies on a disk of this machine, or on one mounted like that.
        lock: Held by each user of the handle.
        version: The newest version that `refresh` found or `commit` wrote; -1 before either.
    """

    def __init__(self, uri: str, options: StorageOptions, *, is_flushed: bool = True) -> None:
        self.uri = uri
        self.lock = RootLock(uri)
        self.version = -1
        self._options = options
        self._files = RootFiles(uri, options)
        self.is_local = is_local(uri)
        self._needs_flush = is_flushed and self.is_local
        self._flush_failure: str | None = None
        self._void = VoidCommits(self._files, uri)
        self._handle = TableHandle(uri, options)
        self._checkpoint_version = -1

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

        Raises:
            CommitConflictError: There is a table.
            CommitOutcomeUnknownError: The store failed; there may be a table.
        """
        created, given = cls(uri, options, is_flushed=is_flushed), options.for_url(uri)
        write_id = uuid4().hex

        def put() -> None:
            table = DeltaTable.create(
                uri,
                schema=delta_schema(schema),
                mode="error",
                partition_by=list(partition_by),
                configuration={
                    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
                    **configuration,
                },
                raise_if_key_not_exists=False,
                storage_options=given,
                commit_properties=commit_properties(write_id, counters or {}),
                post_commithook_properties=HOOKS_OFF,
            )
            created._handle.adopt(table)

        within(uri, lambda: created._commit(0, write_id, put))
        if created._needs_flush:
            created._flush([uri, os.path.dirname(uri), os.path.dirname(os.path.dirname(uri))])
        return created

    def refresh(self) -> int:
        """Bring the handle to the newest version, flushed; return the version.

        Raises:
            ReplicaLostError: There is no table, or it went back.
            CorruptLogError: The log can't be read as a Delta table, or could not be flushed.
            KafkaStorageError: The root does not answer.
        """
        self._check_durable()
        if self.is_local and self._handle.is_at(self.version) and self.is_still_at(self.version):
            return self.version
        version = self._handle.update()
        size = commit_size(self._files, self.uri, version)
        is_emptied = version == self.version and not self._void.is_there(version)
        if version < self.version or size is None or is_emptied:
            # delta-rs updates an open handle without an error when the table's disk is gone, and
            # would count what is gone.
            self._handle.close()
            raise ReplicaLostError(
                f"the table at {self.uri} is gone or went back", version=version, seen=self.version
            )
        self._flush_commits(version)
        if size == 0:
            self._void.check([version])
        self.version = version
        return version

    def advance_to(self, version: int) -> None:
        """Count the commits up to `version`, which the caller has read itself, and flush them.

        Raises: as `refresh`.
        """
        self._check_durable()
        self._flush_commits(version)
        self.version = version

    def _check_durable(self) -> None:
        if self._flush_failure is not None:
            raise CorruptLogError(f"the table at {self.uri} is not durable: {self._flush_failure}")
        if self.is_local and self.version >= 0 and not self._void.is_there(self.version):
            # A table that lies there now, say below the mount of a disk that is away, is another.
            self._handle.close()
            raise ReplicaLostError(f"there is no table at {self.uri}", version=self.version)

    def is_still_at(self, version: int) -> bool:
        """Return whether `version`, the newest that was seen, is there and has no successor.

        It needs no lock, since it does not use the handle.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        if self._flush_failure is not None or self.version != version:
            return False
        try:
            following, own = commit_sizes(self._files, self.uri, (version + 1, version))
            return following is None and self._void.is_commit(version, own)
        except UnsafeFileError:
            return False  # opening the table says what is wrong

    def reopen_next_time(self) -> None:
        """Have the next refresh open the table again; `version` stays known."""
        self._handle.close()

    @property
    def handle(self) -> DeltaTable:
        """The table as of the last `refresh`."""
        return self._handle.table

    def counters_of(self, *names: str) -> list[int | None]:
        """Return `txn` counters as of the last `refresh`; those of the newest commit are cheap."""
        return self._handle.counters_of(names)

    def counters(self) -> dict[str, int]:
        """Return all `txn` counters; slow, since delta-rs finds them by name only."""
        return read_counters(self._files, self.uri, self.handle.version())

    def active_files(self) -> pa.Table:
        """Return the table's files, one row each, as delta-rs flattens them."""
        return self._handle.active_files()

    def commit(
        self,
        at_version: int,
        *,
        operation: str,
        schema: pa.Schema,
        partition_by: Sequence[str],
        adds: Sequence[AddAction] = (),
        removes: Sequence[RemoveAction] = (),
        counters: Mapping[str, int],
    ) -> None:
        """Commit at exactly the version after `at_version`, or fail and change nothing.

        Raises:
            CommitConflictError: That version is taken. Nothing was written.
            CommitOutcomeUnknownError: That version is free so far, and ours may still land.
        """
        version = at_version + 1
        if at_version != self.version:
            raise CommitConflictError("decided on an old version", version=version)
        if not self._handle.is_at(at_version):
            # After a commit the handle stays behind; a refresh shows what others committed since.
            try:
                self.refresh()
            except KafkaOnSparkError as error:
                raise CommitConflictError("not seen before the commit", version=version) from error
            if not self._handle.is_at(at_version):
                raise CommitConflictError("decided on an old version", version=version)
        if self.is_local and not self._void.is_there(at_version):
            # delta-rs creates missing folders: a root that was removed must not be created again.
            raise CommitConflictError(f"the table at {self.uri} was removed", version=version)
        write_id = uuid4().hex
        table = self.handle
        properties = commit_properties(write_id, counters, operation)

        def put() -> None:
            table.create_write_transaction(
                [*adds, *removes],
                "append",
                delta_schema(schema),
                partition_by=list(partition_by),
                commit_properties=properties,
                post_commithook_properties=HOOKS_OFF,
            )

        self._commit(version, write_id, put)

    def _commit(self, version: int, write_id: str, put: Callable[[], None]) -> None:
        try:
            within(self.uri, put, long_call_seconds(self.uri))
        except BaseException as error:
            if not is_failure(error):
                raise  # all other types are failures: delta-rs raises most of them
            self._resolve_outcome(version, write_id, put, error)
        try:
            place = committed_path(self._files, self.uri, version, write_id)
            if self._needs_flush:
                self._flush([place, os.path.dirname(place)])
            if version and not self._void.is_there(version - 1):
                # The put has created the removed folder again: this commit does not count.
                raise ReplicaLostError(f"the table at {self.uri} was removed")
        except CommitConflictError:
            raise
        except KafkaOnSparkError as error:
            raise CommitOutcomeUnknownError(
                f"a commit may be lost: {error.message}", version=version
            ) from error
        self.version = version

    def _resolve_outcome(
        self, version: int, write_id: str, put: Callable[[], None], error: BaseException
    ) -> None:
        """Return if the commit at `version` is ours; raise the outcome otherwise."""
        cause = self._options.shown(error)
        found = write_id_at(self._files, self.uri, version)
        if found is None and self.is_local and is_refused(error):
            raise storage_error(error, f"commit to {self.uri}", self._options) from cause
        if found is None:
            found = self._resolve_unknown(version, put)
        if found is None:
            raise CommitOutcomeUnknownError(
                f"the store failed while committing to {self.uri}: {reason(error, self._options)}",
                version=version,
            ) from cause
        if found != write_id:
            raise CommitConflictError("version is taken", version=version) from cause

    def _resolve_unknown(self, version: int, put: Callable[[], None]) -> str | None:
        def put_again() -> str | None:
            try:
                within(self.uri, put, long_call_seconds(self.uri))
            except BaseException as error:
                if not is_failure(error):
                    raise
                log.debug("commit %s of %s: %s", version, self.uri, reason(error, self._options))
            return write_id_at(self._files, self.uri, version)

        return until_found(put_again, RESOLVE_SECONDS_LOCAL if self.is_local else RESOLVE_SECONDS)

    def _flush_commits(self, version: int) -> None:
        """Check that the unseen local commits up to `version` are there, and flush them: their
        writers may not have flushed them."""
        if self.is_local and not any(
            self._try_flush_commits(version) for _ in range(_FLUSH_ATTEMPTS_MAX)
        ):
            raise KafkaStorageError(f"commits of {self.uri} became old while they were read")

    def _try_flush_commits(self, version: int) -> bool:
        """Check and flush commits; return False if one became old meanwhile."""
        if self.version >= 0 and not is_old(self._files, self.uri, self.version + 1):
            paths = [commit_path(self.uri, each) for each in range(self.version + 1, version + 1)]
        else:
            paths = newest_paths(self._files, self.uri)
            self._checkpoint_version = max(
                (each for each in map(checkpoint_version, paths) if each is not None), default=-1
            )
        void = []
        for path in paths:
            size, version_of = self._files.size(path), commit_version(path)
            if size == 0 and version_of is not None:
                void.append(version_of)
            elif not size:
                if has_moved(self._files, self.uri, path):
                    return False
                self._handle.close()
                raise CorruptLogError("a commit or a checkpoint is gone", path=path)
        self._void.check(void)
        if not paths or not self._needs_flush:
            return True
        return flush_unless_old(self._flush, self._files, self.uri, paths)

    def _flush(self, paths: Sequence[str]) -> None:
        try:
            flush(paths)
        except KafkaStorageError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _UNTRUSTED_ERRNO:
                self._flush_failure = error.message
            raise

    def checkpoint_if_due(self) -> None:
        """Prepare the next commit: update the handle, write a checkpoint if one is due, and reopen
        the handle after a checkpoint, whichever process wrote it.

        A handle gets slower with each commit; reopened after a checkpoint it takes 1-2 ms. A
        failure costs speed only. `version` changes only with a `refresh`.
        """
        if not self._handle.is_open:
            return
        due = self.version - self.version % CHECKPOINT_INTERVAL
        try:
            version = self.version if self._handle.is_at(self.version) else self._handle.update()
            if due <= max(self._checkpoint_version, 0):
                return
            self._checkpoint_version = last_checkpoint(self._files, self.uri)
            if due > self._checkpoint_version:
                self._flush_commits(version)
                within(self.uri, self.handle.create_checkpoint, long_call_seconds(self.uri))
                self._checkpoint_version = version
            if self._needs_flush:
                # A hint at a checkpoint that a power cut lost makes a table unreadable.
                checkpoint = checkpoint_path(self.uri, self._checkpoint_version)
                flush([checkpoint, log_folder(self.uri)])
            if self.is_local:
                move_old_commits(self._files, self.uri, self._checkpoint_version)
            self._handle.reopen()
        except BaseException as error:
            if not is_failure(error):
                raise
            log.warning("no checkpoint of %s: %s", self.uri, reason(error, self._options))
