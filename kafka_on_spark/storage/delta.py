"""The conditional commit: the only code that commits to a Delta table.

A Delta append is *not* a compare-and-swap by default: delta-rs rebases a stale append onto the
newest version and reports success. So every commit passes ``max_commit_retries=0`` on a handle
at the version it was decided on, and carries a write id. After any exception the commit file
at that version is read back, because an error's type does not tell what happened: our id, and
it is committed; another's, and it is a conflict; none, and it is unknown, since a put that
timed out may still land. Unknown is settled by committing the same again until somebody's
commit stands there (GROUND §1.2).

delta-rs never flushes: on a local disk the commit file and its folder are flushed here before a
commit counts, and whoever opens a table flushes what he has not seen flushed.
"""

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from tenacity import (
    RetryError,
    Retrying,
    retry_if_result,
    stop_after_delay,
    wait_random_exponential,
)

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.storage.roots import RootFiles, StorageOptions, flush, is_local

log = logging.getLogger(__name__)

CHECKPOINT_INTERVAL: Final = 10
"""Commits between checkpoints: 5 and 10 cost the same, 20 and 100 more (GROUND §1.3)."""

SETTLE_SECONDS: Final = 30.0
"""How long an unknown outcome is worked on before the caller is told so."""

# The default hooks list the whole log on every commit (GROUND §1.2 no. 11).
_HOOKS_OFF: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_FAILURES: Final = (DeltaError, OSError, ValueError)


def commit_path(uri: str, version: int) -> str:
    """Return the path of the commit file of `version`."""
    return f"{uri}/_delta_log/{version:020d}.json"


class DeltaLog:
    """One Delta table with a kept handle. Not safe for two threads at once: see `lock`.

    Attributes:
        uri: The table's folder.
        lock: Whoever uses the handle holds it.
    """

    def __init__(self, uri: str, options: StorageOptions, *, is_flushed: bool = True) -> None:
        self.uri = uri
        self.lock = threading.RLock()
        self._options = options
        self._files = RootFiles(uri, options)
        self._is_flushed = is_flushed and is_local(uri)
        self._table: DeltaTable | None = None
        self._flushed_version = -1
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
        is_flushed: bool = True,
    ) -> "DeltaLog":
        """Create the table at version 0, or raise as `commit` does.

        Raises:
            CommitConflictError: A table is there.
            CommitOutcomeUnknownError: The store failed; a table may be there.
        """
        made = cls(uri, options, is_flushed=is_flushed)
        write_id = uuid4().hex

        def put() -> None:
            DeltaTable.create(
                uri,
                schema=Schema.from_arrow(schema),
                mode="error",
                partition_by=list(partition_by),
                configuration={
                    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
                    **configuration,
                },
                raise_if_key_not_exists=False,
                storage_options=options.for_url(uri),
                commit_properties=_properties(write_id, {}),
                post_commithook_properties=_HOOKS_OFF,
            )

        made._commit(0, write_id, put)
        return made

    def refresh(self) -> int:
        """Bring the handle to the newest version; return it. What it has is flushed.

        Raises:
            ReplicaLostError: There is no table.
            CorruptLogError: The log can't be read as a Delta table.
            KafkaStorageError: The root does not answer.
        """
        try:
            if self._table is None:
                self._table = DeltaTable(self.uri, storage_options=self._options.for_url(self.uri))
            else:
                self._table.update_incremental()
        except TableNotFoundError as error:
            self._table = None
            raise ReplicaLostError(f"there is no table at {self.uri}") from error
        except OSError as error:
            self._table = None
            raise KafkaStorageError(f"can't open the table at {self.uri}") from error
        except (DeltaError, ValueError) as error:
            self._table = None
            raise CorruptLogError(f"the table at {self.uri} can't be read: {error}") from error
        version = self._table.version()
        self._check_still_there(version)
        self._flush_commits(version)
        return version

    def _check_still_there(self, version: int) -> None:
        """Check that the newest commit's file exists: a kept handle of a table whose disk was
        taken away is updated without an error, and would count what is gone."""
        if self._files.read(commit_path(self.uri, version)) is None:
            self._table = None
            raise ReplicaLostError(f"there is no table at {self.uri}", version=version)

    @property
    def handle(self) -> DeltaTable:
        """The open table."""
        assert self._table is not None, "refresh first"
        return self._table

    def counter(self, name: str) -> int | None:
        """Return the `txn` counter `name`."""
        return self.handle.transaction_version(name)

    def counters(self) -> dict[str, int]:
        """Return all `txn` counters. delta-rs finds them by name only, so the newest
        checkpoint and the commits after it are read here; slow, and rarely needed."""
        folder = f"{self.uri}/_delta_log"
        checkpoints = [name for name in self._files.names(folder) if ".checkpoint." in name]
        counters: dict[str, int] = {}
        first = 0
        if checkpoints:
            content = self._files.read(f"{folder}/{max(checkpoints)}")
            column = pq.read_table(pa.BufferReader(content), columns=["txn"]).column("txn")
            counters = {txn["appId"]: txn["version"] for txn in column.drop_null().to_pylist()}
            first = int(max(checkpoints)[:20]) + 1
        for version in range(first, self.handle.version() + 1):
            for line in (self._files.read(commit_path(self.uri, version)) or b"").splitlines():
                txn = json.loads(line).get("txn")
                if txn is not None:
                    counters[txn["appId"]] = txn["version"]
        return counters

    def active_files(self) -> pa.Table:
        """Return the table's files, one row each, as delta-rs flattens them."""
        return pa.table(self.handle.get_add_actions(flatten=True))

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
        if self.handle.version() != at_version:
            raise CommitConflictError("decided on an old version", version=version)
        write_id = uuid4().hex
        delta_schema = Schema.from_arrow(schema)
        properties = _properties(write_id, counters, operation)

        def put() -> None:
            self.handle.create_write_transaction(
                [*adds, *removes],
                "append",
                delta_schema,
                partition_by=list(partition_by),
                commit_properties=properties,
                post_commithook_properties=_HOOKS_OFF,
            )

        self._commit(version, write_id, put)
        if self.refresh() < version:
            raise CommitOutcomeUnknownError("a commit is not seen again", version=version)

    def _commit(self, version: int, write_id: str, put: Any) -> None:
        try:
            put()
        except _FAILURES as error:
            self._settle(version, write_id, put, error)
        self._flush_commits(version)

    def _settle(self, version: int, write_id: str, put: Any, error: Exception) -> None:
        """Return if our commit is the one at `version`; else raise what that means."""
        found = self._write_id_at(version)
        if found is None:
            found = self._settle_unknown(version, write_id, put, error)
        if found != write_id:
            raise CommitConflictError("version is taken", version=version) from error

    def _settle_unknown(self, version: int, write_id: str, put: Any, error: Exception) -> str:
        def again() -> str | None:
            try:
                put()
            except _FAILURES as failure:
                log.debug("commit %s of %s: %s", version, self.uri, failure)
            return self._write_id_at(version)

        try:
            settled: str = Retrying(
                retry=retry_if_result(lambda found: found is None),
                stop=stop_after_delay(SETTLE_SECONDS if not is_local(self.uri) else 1.0),
                wait=wait_random_exponential(multiplier=0.05, max=2.0),
            )(again)
        except RetryError:
            raise CommitOutcomeUnknownError(
                f"the store failed while committing to {self.uri}", version=version
            ) from error
        return settled

    def _write_id_at(self, version: int) -> str | None:
        """Return the write id of the commit at `version`, "" for one without, None for none."""
        try:
            content = self._files.read(commit_path(self.uri, version))
        except KafkaStorageError:
            return None
        return None if not content else _write_id_of(content)

    def _flush_commits(self, version: int) -> None:
        """Flush the commit files up to `version` that this handle has not flushed."""
        if not self._is_flushed or version <= self._flushed_version:
            self._flushed_version = max(version, self._flushed_version)
            return
        log_folder = f"{self.uri}/_delta_log"
        if self._flushed_version >= 0:
            names = [f"{each:020d}.json" for each in range(self._flushed_version + 1, version + 1)]
        else:
            names = self._files.names(log_folder)
            newest = max((each for each in names if ".checkpoint." in each), default="")
            names = [each for each in names if each >= newest[:20] and not each.startswith("_")]
        flush([*(f"{log_folder}/{name}" for name in names), log_folder])
        self._flushed_version = version

    def checkpoint_if_due(self) -> None:
        """Make a checkpoint if one is due, and open the handle anew after it.

        A kept handle gets slower with each commit since it was opened; opening it anew right
        after a checkpoint keeps both at 1-2 ms (GROUND §1.3). A failure costs speed only.
        """
        version = self.handle.version()
        due = version - version % CHECKPOINT_INTERVAL
        if due <= 0 or due <= self._checkpoint_version:
            return
        try:
            self.handle.create_checkpoint()
            self._checkpoint_version = version
            self._table = DeltaTable(self.uri, storage_options=self._options.for_url(self.uri))
        except _FAILURES as error:
            log.warning("no checkpoint of %s: %s", self.uri, error)


def _properties(
    write_id: str, counters: Mapping[str, int], operation: str = "create"
) -> CommitProperties:
    return CommitProperties(
        custom_metadata={"writeId": write_id, "op": operation},
        max_commit_retries=0,
        app_transactions=[Transaction(name, value) for name, value in counters.items()],
    )


def _write_id_of(content: bytes) -> str:
    try:
        for line in content.splitlines():
            info = json.loads(line).get("commitInfo")
            if info is not None:
                return str(info.get("writeId", ""))
    except ValueError:
        return ""
    return ""
