"""A handle of delta-rs on a table that stays open: brought up to date, and reopened when needed.

This module decides what an error of delta-rs means to a reader; `conditional_commit` decides what
one means to a commit.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from kafka_on_spark.errors import (
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.storage.calls.deadlines import long_call_seconds, within
from kafka_on_spark.storage.calls.error_translation import is_failure, reason, storage_error
from kafka_on_spark.storage.delta.commit_contents import counters_in
from kafka_on_spark.storage.delta.delta_files import (
    PROTOCOL,
    check_log,
    checkpoint_path,
    last_checkpoint,
)
from kafka_on_spark.storage.delta.old_commits import is_old
from kafka_on_spark.storage.delta.unreadable_checkpoints import (
    check_checkpoints,
    rename_unreadable_checkpoint,
)
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions

_OF_ROOT: Final = (OSError, RuntimeError)


class TableHandle:
    """A table as delta-rs reads it; nothing is read before `update`."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self._uri = uri
        self._options = options
        self._files = RootFiles(uri, options)
        self._table: DeltaTable | None = None

    @property
    def table(self) -> DeltaTable:
        """The table as of the last `update`."""
        assert self._table is not None, "update first"
        return self._table

    @property
    def is_open(self) -> bool:
        """Whether the table is open."""
        return self._table is not None

    def is_at(self, version: int) -> bool:
        """Return whether the handle is at exactly `version`."""
        return self._table is not None and self._table.version() == version

    def adopt(self, table: DeltaTable) -> None:
        """Use a table that delta-rs has already opened."""
        self._table = table

    def close(self) -> None:
        """Close the table: the next `update` opens it again."""
        self._table = None

    def update(self) -> int:
        """Bring the handle to the newest version; return it.

        Raises:
            ReplicaLostError: There is no table.
            CorruptLogError: The log can't be read as a Delta table.
            KafkaStorageError: The root does not answer.
        """
        table, self._table = self._table, None
        with self.reading():
            if table is not None:
                following = table.version() + 1
                check_log(self._files, self._uri, following)
                try:
                    within(self._uri, table.update_incremental, long_call_seconds(self._uri))
                except DeltaError:
                    table = None  # a handle can't follow a table that went back below its version
                # Another file in the place of an old commit is not what was committed.
                if is_old(self._files, self._uri, following):
                    table = None
            table = table or self._opened()
            if is_old(self._files, self._uri, table.version() + 1):
                table = self._opened()
                self._check_end(table.version())
            self._check_protocol(table)
        self._table = table
        return table.version()

    def _check_protocol(self, table: DeltaTable) -> None:
        protocol = table.protocol()
        found = (protocol.min_reader_version, protocol.min_writer_version)
        if found != PROTOCOL:
            raise CorruptLogError(
                f"the table at {self._uri} has Delta's protocol {found}, and one of this cluster"
                f" has {PROTOCOL}: restore it from a copy"
            )

    def _check_end(self, version: int) -> None:
        """Check that the log continues its old commits: an incomplete copy of a table may not."""
        if is_old(self._files, self._uri, version + 1):
            raise CorruptLogError(
                f"the log of {self._uri} ends before its old commits: restore it from another copy",
                version=version,
            )

    def reopen(self) -> None:
        """Open the table again: a handle gets slower with each commit."""
        self._table = self._opened()

    def _opened(self) -> DeltaTable:
        check_log(self._files, self._uri)
        check_checkpoints(self._files, self._uri)
        given = self._options.for_url(self._uri)
        open_table = partial(DeltaTable, self._uri, storage_options=given)
        try:
            return within(self._uri, open_table, long_call_seconds(self._uri))
        except DeltaError:
            is_set_aside = rename_unreadable_checkpoint(self._files, self._uri)
            table = self._opened_before_checkpoint()
            if table is not None:
                return table
            if is_set_aside:
                return within(self._uri, open_table, long_call_seconds(self._uri))
            if not is_old(self._files, self._uri, 0):
                raise
            # The commit that delta-rs was about to read may have become old meanwhile.
            return within(self._uri, open_table, long_call_seconds(self._uri))

    def _opened_before_checkpoint(self) -> DeltaTable | None:
        """Open a table whose hint names a checkpoint that a power cut left without bytes.

        delta-rs skips an empty checkpoint, unless the hint names it.
        """
        version = last_checkpoint(self._files, self._uri)
        if version < 1 or self._files.size(checkpoint_path(self._uri, version)):
            return None
        given = self._options.for_url(self._uri)

        def open_table() -> DeltaTable:
            table = DeltaTable(self._uri, version=version - 1, storage_options=given)
            table.update_incremental()
            return table

        return within(self._uri, open_table, long_call_seconds(self._uri))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn an error of delta-rs into one that tells a root's failure from a table's damage."""
        try:
            yield
        except TableNotFoundError:
            raise ReplicaLostError(f"there is no table at {self._uri}") from None
        except _OF_ROOT as error:
            what = f"read the table at {self._uri}"
            raise storage_error(error, what, self._options) from self._options.shown(error)
        except (DeltaError, ValueError) as error:
            # A file of the table may be gone that a new handle does not need.
            table, self._table = self._table, None
            is_outdated = table is not None and is_old(self._files, self._uri, table.version())
            kind = KafkaStorageError if is_outdated else CorruptLogError
            raise kind(self._sentence(error)) from self._options.shown(error)
        except BaseException as error:
            if isinstance(error, KafkaOnSparkError) or not is_failure(error):
                raise
            what = f"read the table at {self._uri}"
            raise storage_error(error, what, self._options) from self._options.shown(error)

    def _sentence(self, error: Exception) -> str:
        return f"can't read the table at {self._uri}: {reason(error, self._options)}"

    def counters_of(self, names: Sequence[str]) -> list[int | None]:
        """Return the `txn` counters of these names, as of the last `update`.

        The newest commit is read first: delta-rs reads the log once for each name, and all of it
        for a name that it does not find.
        """
        newest = counters_in(self._files, self._uri, self.table.version())
        with self.reading():
            by_name = self.table.transaction_version
            return [newest[name] if name in newest else by_name(name) for name in names]

    def active_files(self) -> pa.Table:
        """Return the table's files, one row each, as delta-rs flattens them."""
        with self.reading():
            # Not by `pa.table`, which imports pandas to ask whether this is a frame.
            return pa.RecordBatchReader.from_stream(
                self.table.get_add_actions(flatten=True)
            ).read_all()
