"""The conditional commit: the only code that commits to a Delta table.

A Delta append is *not* a compare-and-swap by default: delta-rs rebases a stale append onto the
newest version and reports success. So every commit passes ``max_commit_retries=0`` on a handle
at the version it was decided on, and carries a write id. After any exception the commit file
at that version is read back, because an error's type does not tell what happened: our id, and
it is committed; another's, and it is a conflict; none, and it is unknown, since a put that
timed out may still land. Unknown is settled by committing the same again until somebody's
commit stands there (GROUND §1.2).

delta-rs never flushes: on a local disk the commit file and its folder are flushed here before a
commit counts, and whoever opens a table flushes what he has not seen flushed. What could not be
flushed is never trusted again, even if a later try succeeds (FAULTS 41).
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
from kafka_on_spark.storage.commit_properties import HOOKS_OFF, commit_properties, delta_schema
from kafka_on_spark.storage.commits import read_counters
from kafka_on_spark.storage.deadlines import RootLock, within, work_seconds
from kafka_on_spark.storage.delta_files import (
    checkpoint_path,
    checkpoint_version,
    commit_path,
    commit_version,
    last_checkpoint,
    log_folder,
    newest_paths,
)
from kafka_on_spark.storage.delta_handle import TableHandle
from kafka_on_spark.storage.failures import is_failure, is_refused, storage_error
from kafka_on_spark.storage.local_files import OddFileError
from kafka_on_spark.storage.old_commits import (
    commit_size,
    commit_sizes,
    flush_unless_old,
    has_moved,
    is_old,
    move_old_commits,
    place_of,
    write_id_at,
)
from kafka_on_spark.storage.retrying import until_found
from kafka_on_spark.storage.roots import RootFiles, StorageOptions, flush, is_local, reason
from kafka_on_spark.storage.void_commits import VoidCommits

log = logging.getLogger(__name__)

CHECKPOINT_INTERVAL: Final = 10
"""Commits between checkpoints: 5 and 10 cost the same, 20 and 100 more (GROUND §1.3)."""

SETTLE_SECONDS: Final = 30.0
"""How long an unknown outcome is worked on before the caller is told so."""

SETTLE_SECONDS_LOCAL: Final = 1.0
"""The same on a local disk, which has no requests that are still under way."""

# After these from a flush, the system may drop what it had and call the next flush a success.
_LOST: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


_LOOKS_MAX: Final = 3


class DeltaLog:
    """One Delta table with a kept handle. Not safe for two threads at once: see `lock`.

    Attributes:
        uri: The table's folder.
        is_local: It lies on a disk of this machine, or on one that looks so.
        lock: Whoever uses the handle holds it.
        version: The newest version that `refresh` found or `commit` made; -1 before either.
    """

    def __init__(self, uri: str, options: StorageOptions, *, is_flushed: bool = True) -> None:
        self.uri = uri
        self.lock = RootLock(uri)
        self.version = -1
        self._options = options
        self._files = RootFiles(uri, options)
        self.is_local = is_local(uri)
        self._is_flushed = is_flushed and self.is_local
        self._lost: str | None = None
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
        """Create the table at version 0, or raise as `commit` does; it is open then.

        Raises:
            CommitConflictError: A table is there.
            CommitOutcomeUnknownError: The store failed; a table may be there.
        """
        made, given = cls(uri, options, is_flushed=is_flushed), options.for_url(uri)
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
            made._handle.keep(table)

        within(uri, lambda: made._commit(0, write_id, put))
        if made._is_flushed:
            made._flush([uri, os.path.dirname(uri), os.path.dirname(os.path.dirname(uri))])
        return made

    def refresh(self) -> int:
        """Bring the handle to the newest version; return it. What it has is flushed.

        Raises:
            ReplicaLostError: There is no table, or it went back.
            CorruptLogError: The log can't be read as a Delta table, or could not be flushed.
            KafkaStorageError: The root does not answer.
        """
        self._check_kept()
        if self.is_local and self._handle.is_at(self.version) and self.is_still_at(self.version):
            return self.version
        version = self._handle.update()
        size = commit_size(self._files, self.uri, version)
        is_emptied = version == self.version and not self._void.is_there(version)
        if version < self.version or size is None or is_emptied:
            # A kept handle of a table whose disk was taken away is updated without an error,
            # and would count what is gone.
            self._handle.forget()
            raise ReplicaLostError(
                f"the table at {self.uri} is gone or went back", version=version, seen=self.version
            )
        self._check_commits(version)
        if size == 0:
            self._void.check([version])
        self.version = version
        return version

    def see(self, version: int) -> None:
        """Count the commits up to `version`, which the caller has read itself: flushed now.

        Raises: as `refresh`.
        """
        self._check_kept()
        self._check_commits(version)
        self.version = version

    def _check_kept(self) -> None:
        if self._lost is not None:
            raise CorruptLogError(f"the table at {self.uri} was not kept: {self._lost}")
        if self.is_local and self.version >= 0 and not self._void.is_there(self.version):
            # What lies there now, say beneath the mount of a disk that is away, is no sequel.
            self._handle.forget()
            raise ReplicaLostError(f"there is no table at {self.uri}", version=self.version)

    def is_still_at(self, version: int) -> bool:
        """Return True if nobody has committed since `version`, the newest that was seen, and that
        is still there; without the lock, since nothing of the handle is used.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        if self._lost is not None or self.version != version:
            return False
        try:
            following, own = commit_sizes(self._files, self.uri, (version + 1, version))
            return following is None and self._void.is_commit(version, own)
        except OddFileError:
            return False  # what it is, opening the table says

    def forget(self) -> None:
        """Open the table anew next time; what this process has seen of it stays known."""
        self._handle.forget()

    @property
    def handle(self) -> DeltaTable:
        """The table as of the last `refresh`."""
        return self._handle.table

    def counter(self, name: str) -> int | None:
        """Return the `txn` counter `name`, as of the last `refresh`."""
        return self._handle.counter(name)

    def counters_of(self, *names: str) -> list[int | None]:
        """Return several, cheap for those that the newest commit sets."""
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
            CommitConflictError: That version is somebody else's. Nothing was written.
            CommitOutcomeUnknownError: It is nobody's yet, and ours may still land.
        """
        version = at_version + 1
        if at_version != self.version:
            raise CommitConflictError("decided on an old version", version=version)
        if not self._handle.is_at(at_version):
            # After a commit the handle stays where it was; what others committed since shows.
            try:
                self.refresh()
            except KafkaOnSparkError as error:
                raise CommitConflictError("not seen before the commit", version=version) from error
            if not self._handle.is_at(at_version):
                raise CommitConflictError("decided on an old version", version=version)
        if self.is_local and not self._void.is_there(at_version):
            # delta-rs makes missing folders: a root that was removed must not be made anew.
            raise CommitConflictError(f"the table at {self.uri} was taken away", version=version)
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
            within(self.uri, put, work_seconds(self.uri))
        except BaseException as error:
            if not is_failure(error):
                raise  # of whatever other type: delta-rs raises most of those there are
            self._settle(version, write_id, put, error)
        try:
            place = place_of(self._files, self.uri, version, write_id)
            if self._is_flushed:
                self._flush([place, os.path.dirname(place)])
            if version and not self._void.is_there(version - 1):
                # What was put lies in a folder that the put has made anew: it counts for nothing.
                raise ReplicaLostError(f"the table at {self.uri} was taken away")
        except CommitConflictError:
            raise
        except KafkaOnSparkError as error:
            raise CommitOutcomeUnknownError(
                f"a commit may not have been kept: {error.message}", version=version
            ) from error
        self.version = version

    def _settle(
        self, version: int, write_id: str, put: Callable[[], None], error: BaseException
    ) -> None:
        """Return if our commit is the one at `version`; else raise what that means."""
        cause = self._options.shown(error)
        found = write_id_at(self._files, self.uri, version)
        if found is None and self.is_local and is_refused(error):
            raise storage_error(error, f"commit to {self.uri}", self._options) from cause
        if found is None:
            found = self._settle_unknown(version, put)
        if found is None:
            raise CommitOutcomeUnknownError(
                f"the store failed while committing to {self.uri}: {reason(error, self._options)}",
                version=version,
            ) from cause
        if found != write_id:
            raise CommitConflictError("version is taken", version=version) from cause

    def _settle_unknown(self, version: int, put: Callable[[], None]) -> str | None:
        def again() -> str | None:
            try:
                within(self.uri, put, work_seconds(self.uri))
            except BaseException as error:
                if not is_failure(error):
                    raise
                log.debug("commit %s of %s: %s", version, self.uri, reason(error, self._options))
            return write_id_at(self._files, self.uri, version)

        return until_found(again, SETTLE_SECONDS_LOCAL if self.is_local else SETTLE_SECONDS)

    def _check_commits(self, version: int) -> None:
        """Check that the local commits up to `version` that this log has not seen are there, and
        flush them: whoever wrote them may not have."""
        if self.is_local and not any(self._are_flushed(version) for _ in range(_LOOKS_MAX)):
            raise KafkaStorageError(f"commits of {self.uri} became old while they were looked at")

    def _are_flushed(self, version: int) -> bool:
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
                if has_moved(self._files, self.uri, path):  # it has become old meanwhile
                    return False
                self._handle.forget()
                raise CorruptLogError("a commit or a checkpoint is gone", path=path)
        self._void.check(void)
        if not paths or not self._is_flushed:
            return True
        return flush_unless_old(self._flush, self._files, self.uri, paths)

    def _flush(self, paths: Sequence[str]) -> None:
        try:
            flush(paths)
        except KafkaStorageError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _LOST:
                self._lost = error.message
            raise

    def checkpoint_if_due(self) -> None:
        """Make ready for the next commit: bring the handle up, make a checkpoint if one is due,
        and open the handle anew after it, whoever made it.

        A kept handle gets slower with each commit; opened anew after a checkpoint it takes 1-2 ms
        (GROUND §1.3). A failure costs speed only. `version` stays before a `refresh`.
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
                self._check_commits(version)
                within(self.uri, self.handle.create_checkpoint, work_seconds(self.uri))
                self._checkpoint_version = version
            if self._is_flushed:
                # A hint at a checkpoint that was not kept makes a table unreadable.
                made = checkpoint_path(self.uri, self._checkpoint_version)
                flush([made, log_folder(self.uri)])
            if self.is_local:
                move_old_commits(self._files, self.uri, self._checkpoint_version)
            self._handle.open_anew()
        except BaseException as error:
            if not is_failure(error):
                raise
            log.warning("no checkpoint of %s: %s", self.uri, reason(error, self._options))
