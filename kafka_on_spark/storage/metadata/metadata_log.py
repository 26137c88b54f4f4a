"""Adapts a Delta table to the MetadataLog port: one commit per batch, one row per record.

Commits and counters are as in a replica's log; the rows are typed metadata records, so that people
can query the table. Snapshots are Parquet files of the same columns beside it.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    InconsistentClusterError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.storage.calls.deadlines import RootHangsError, on_root
from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.delta.conditional_commit import DeltaLog
from kafka_on_spark.storage.delta.files.actions import AddFile
from kafka_on_spark.storage.delta.files.delta_files import log_folder
from kafka_on_spark.storage.identity.metadata_root import check_replaced, identity_of
from kafka_on_spark.storage.metadata.metadata_cleaning import ReplacedFiles, clean_metadata
from kafka_on_spark.storage.metadata.metadata_files import (
    FILE_SCHEMA,
    batch_times,
    decode_file,
    encode_file,
)
from kafka_on_spark.storage.metadata.metadata_merge import files_to_merge, write_merged
from kafka_on_spark.storage.metadata.metadata_placement import (
    EPOCH,
    LOG_END_OFFSET,
    LogFile,
    add_file,
    files_added_by,
    log_files,
    remove_file,
)
from kafka_on_spark.storage.metadata.metadata_reading import read_batches
from kafka_on_spark.storage.metadata.metadata_snapshots import (
    newest_snapshot,
    newest_snapshot_end,
    write_snapshot,
)
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions, flush, is_local
from kafka_on_spark.storage.temporaries import clean_metadata_root

log = logging.getLogger(__name__)

FORMAT_VERSION: Final = "1"
MERGE_INTERVAL: Final = 8
"""The process that commits a version divisible by this looks for files to merge."""

MERGE_TRIES: Final = 3
"""How often a merge that lost against another commit is tried again, before the next one is due."""

TAIL_COMMITS_MAX: Final = 32
"""New commits that are read one by one; if there are more, the table's merged files are read."""

HEADER: Final = ("base_offset", "epoch")
TABLE_SCHEMA: Final = pa.schema([("base_offset", pa.int64()), ("epoch", pa.int32()), *FILE_SCHEMA])


class _End(NamedTuple):
    """Where the log ends at a version of its table."""

    version: int
    offset: Offset


class DeltaMetadataLog:
    """A MetadataLog on the Delta table that a metadata root names.

    Attributes:
        identity: The metadata root's identity.
        uri: The table, for people and for Spark.

    Raises: as `identity_of`.
    """

    def __init__(self, metadata_root: str, options: StorageOptions) -> None:
        self.identity = identity_of(metadata_root, options)
        self.uri = self.identity.table_at(metadata_root)
        self.root = metadata_root
        self._options = options
        self._files = RootFiles(metadata_root, options)
        self._delta = DeltaLog(self.uri, options)
        self._end: _End | None = None
        self._is_merge_due = False
        self._is_cleaned = False
        self._replaced = ReplacedFiles(self._files, self.root, self.uri)

    @on_root
    def check(self) -> None:
        """Check that the table is the root's, and of a format that this version reads.

        Raises:
            CorruptLogError: It is gone or another root's, or its format is newer.
            KafkaStorageError: The metadata root is away or does not answer.
        """
        with self._delta.lock:
            self._refresh()
            found = self._delta.configuration
        version = found.get("kos.format.version")
        if version != FORMAT_VERSION:
            raise CorruptLogError(
                f"the cluster at {self.root} has format {version}, this version reads"
                f" {FORMAT_VERSION}: use a newer kafka_on_spark"
            )
        for name, value in self.identity.configuration.items():
            if found.get(name) != value:
                words = f"the table at {self.uri} is another metadata root's: restore its own"
                raise CorruptLogError(words, setting=name, expected=value, found=found.get(name))

    def _refresh(self) -> _End:
        self._end = None
        with self._present():
            self._delta.refresh()
        return self._set_end()

    def _set_end(self) -> _End:
        (end,) = self._delta.counters_of(LOG_END_OFFSET)
        self._end = _End(self._delta.version, Offset(end or 0))
        return self._end

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Tell a log that went back, where nothing may go on, from a log whose root is away, and
        both from another cluster in its place."""
        try:
            yield
        except CorruptLogError:
            check_replaced(self.root, self.identity, self._options)
            raise
        except ReplicaLostError as error:
            check_replaced(self.root, self.identity, self._options)
            if not self._files.names(log_folder(self.uri)):
                raise CorruptLogError(
                    f"the metadata table {self.uri} is gone from its root: restore it from a"
                    " copy, or empty the root to create another cluster"
                ) from error
            raise InconsistentClusterError(
                f"the metadata log at {self.root} went back behind what this process has seen:"
                " stop and restore it"
            ) from error

    @on_root
    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return the batches from `from_offset` on, oldest first; those up to `to_offset`.

        Raises:
            KafkaStorageError: The metadata root is away or does not answer.
            InconsistentClusterError: The log ends before `from_offset`: it went back.
            ClusterNotFoundError: Another cluster was created in this one's place.
        """
        try:
            with self._present():
                return self._read(from_offset, to_offset)
        except CorruptLogError:
            # The root may have been away for a moment: real damage shows on a second read, too.
            with self._delta.lock, self._present():
                self._end = None
                self._delta.reopen_next_time()
                return self._read(from_offset, to_offset)

    def _read(self, from_offset: Offset, to_offset: Offset | None) -> list[MetadataBatch]:
        if self._is_still_at(from_offset):
            return []
        with self._delta.lock:
            with self._present():
                end = self._end
                if end is not None and end.offset == from_offset and to_offset is None:
                    tail = self._newest_batches(end)
                    if tail is not None:
                        return tail
            end_offset = self._refresh().offset
            if from_offset > end_offset:
                raise InconsistentClusterError(
                    f"the metadata log at {self.root} ends at {end_offset}, but this"
                    f" process has seen {from_offset}: it went back; stop and restore it"
                )
            if from_offset == end_offset:
                return []
            files = log_files(self._delta.active_files())
        end_offset = end_offset if to_offset is None else to_offset
        return read_batches(self._files, self.uri, files, from_offset, end_offset)

    def _is_still_at(self, offset: Offset) -> bool:
        """Return whether the log still ends at `offset`; False also if this process has seen more.

        It needs no lock, so that a thread without need of the handle does not wait for it.
        """
        end = self._end  # read once: another thread may append meanwhile
        return end is not None and end.offset == offset and self._delta.is_still_at(end.version)

    def _newest_batches(self, end: _End) -> list[MetadataBatch] | None:
        """Return the batches of the few newest commits, from the commits themselves. None if there
        are many, or they don't follow each other: then the caller reads the table's merged files,
        which also says what is wrong.
        """
        commits = self._delta.follow()
        if commits is None or len(commits) > TAIL_COMMITS_MAX:
            return None
        now = self._set_end()
        try:
            files = files_added_by(commits)
            batches = read_batches(self._files, self.uri, files, end.offset, now.offset)
        except CorruptLogError:
            return None
        is_whole = (batches[-1].end_offset if batches else end.offset) == now.offset
        return batches if is_whole else None

    def batches_from(self, offset: Offset) -> Iterator[MetadataBatch]:
        """Yield the batch that holds `offset` and those after it, a file at a time.

        Streams for debugging; caches nothing.
        """
        with self._delta.lock:
            self._refresh()
            files = log_files(self._delta.active_files())
        for file in files:
            if file.end_offset <= offset:
                continue
            path = f"{self.uri}/{file.path}"
            for batch in decode_file(self._files.read(path, METADATA_FILE_BYTES_MAX), path):
                if batch.end_offset > offset:
                    yield batch

    @on_root
    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a time: the base offset of the first later batch.

        This reads the files: a merged file holds many batches, and their times may go back.
        """
        with self._delta.lock:
            end_offset = self._refresh().offset
            files = log_files(self._delta.active_files())
        for file in files:
            path = f"{self.uri}/{file.path}"
            for base_offset, batch_time_ms in batch_times(
                self._files.read(path, METADATA_FILE_BYTES_MAX), path
            ):
                if batch_time_ms > time_ms:
                    return base_offset
        return end_offset

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> MetadataBatch:
        """Append a batch if the log still ends at `expected_offset`; return it."""
        try:
            return self._append(records, stamp, expected_offset)
        except RootHangsError as error:
            raise CommitOutcomeUnknownError(error.message) from error

    @on_root
    def _append(
        self, records: Sequence[Record], stamp: Stamp, expected_offset: Offset
    ) -> MetadataBatch:
        assert records, "an empty batch would be a version without a decision"
        path = f"{expected_offset:020d}-{uuid4().hex}.parquet"
        with self._delta.lock:
            end = self._end
            if end is None or end.offset != expected_offset:
                end = self._refresh()
                if end.offset != expected_offset:
                    raise CommitConflictError("the metadata log has moved on", version=end.version)
            content = encode_file(records, stamp, expected_offset)
            self._files.write(f"{self.uri}/{path}", content)
            if is_local(self.uri):
                flush([self.uri])
            end_offset = Offset(expected_offset + len(records))
            try:
                self._delta.commit(
                    end.version,
                    operation="append",
                    files=[
                        add_file(
                            path,
                            content.size,
                            len(records),
                            expected_offset,
                            stamp.time_ms,
                            changes_data=True,
                        )
                    ],
                    counters={LOG_END_OFFSET: end_offset, "leader-epoch": EPOCH},
                )
            except CommitConflictError:
                raise  # nothing was written, and a short tail has what others committed
            except BaseException:
                self._end = None
                raise
            self._end = _End(end.version + 1, end_offset)
            self._is_merge_due |= self._end.version % MERGE_INTERVAL == 0
        return MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))

    @on_root
    def maintain(self) -> None:
        """Write a checkpoint if one is due; merge small files when there are many. The first merge
        also removes what killed processes left unfinished.

        Raises:
            KafkaOnSparkError: A merge failed, which costs time only.
        """
        self._delta.checkpoint_if_due()
        with self._delta.lock:
            if not self._is_merge_due:
                return
            self._is_merge_due = False
        if not self._is_cleaned:
            self._is_cleaned = True
            clean_metadata_root(self.root, self.uri, self._options)
        self._merge()

    def _merge(self) -> None:
        """Write adjacent small files as one, rows and order unchanged.

        Appends may go on while files are read and written; the commit is one like any other.
        """
        with self._delta.lock:
            self._refresh()
            files = log_files(self._delta.active_files())
        merged = files_to_merge(files, partial(newest_snapshot_end, self._files, self.root))
        if not merged:
            return
        add = write_merged(self._files, self.uri, merged)
        for _ in range(MERGE_TRIES):
            with suppress(CommitConflictError):
                with self._delta.lock:
                    end = self._refresh()
                    if not set(merged) <= set(log_files(self._delta.active_files())):
                        return  # another process has merged them
                    self._commit_merge(end, add, merged)
                self._delta.checkpoint_if_due()
                return

    def _commit_merge(self, end: _End, add: AddFile, merged: list[LogFile]) -> None:
        try:
            self._delta.commit(
                end.version,
                operation="merge",
                files=[*map(remove_file, merged), add],
                counters={LOG_END_OFFSET: end.offset},
            )
        except BaseException:
            self._end = None
            raise
        self._end = _End(end.version + 1, end.offset)

    @on_root
    def clean(self, delay_ms: int, now_ms: int) -> int:
        """Delete what no reader needs, as `clean_metadata` says."""
        return clean_metadata(self._replaced, self._end_and_files, self._options, now_ms - delay_ms)

    def _end_and_files(self) -> tuple[int, list[LogFile]]:
        with self._delta.lock:
            return self._refresh().offset, log_files(self._delta.active_files())

    @on_root
    def check_writable(self) -> None:
        """Check that this process may write to a local log's folder; a store is not asked."""
        refusal = self._files.write_refusal(f"{self.uri}/_delta_log")
        if refusal is not None:
            raise RootAccessDeniedError(
                f"the metadata root {self.root} takes no writes of this process ({refusal}): write"
                " as a user who may, or mount it for writing; nothing was written"
            )

    @on_root
    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        """Return the newest readable snapshot as a batch that ends at its end offset.

        `to_offset`: the newest that ends there or before. A snapshot above the log's end is another
        log's, or holds what a log that was rolled back has lost.
        """
        with self._delta.lock:
            end = self._end or self._refresh()
        bound = end.offset if to_offset is None else min(end.offset, to_offset)
        return newest_snapshot(self._files, self.root, self.identity.cluster_id, Offset(bound))

    @on_root
    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        """Write the records that rebuild the image at `end_offset`, unless they are there.

        Raises:
            ClusterNotFoundError: Another cluster was created in this one's place.
        """
        check_replaced(self.root, self.identity, self._options)
        write_snapshot(self._files, self.root, records, stamp, end_offset)
