"""The voters' logs in Delta tables, as this process follows them: a commit is one version of a
table, a batch one file.

Vote, leader and log are one atomic state, because the counters of the table and its files change in
the same commit. The rows are typed metadata records, so that people can query the table. Snapshots
are Parquet files of the same columns beside it.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Concatenate, Final, ParamSpec, TypeVar

import pyarrow as pa

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    HistoryExpiredError,
    KafkaStorageError,
    ReplicaLostError,
    RootAccessDeniedError,
    RootReadOnlyError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.metadata_files import (
    HISTORY_START,
    HISTORY_START_MS,
    LogFile,
    add_file,
    batch_times,
    check_format,
    counters_of,
    decode_file,
    decode_parts,
    decode_tables,
    encode_file,
    encode_rows,
    expired_rows,
    first_row,
    log_files,
    raft_log_of,
    remove_file,
    table_of,
    times_of,
    write_file,
)
from kafka_on_spark.metadata.metadata_root import (
    MetadataIdentity,
    check_replaced,
    table_gone,
    went_back,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    UNREADABLE,
    OffsetAndEpoch,
    RaftBatch,
    TableChange,
    Voter,
    VoterTable,
    goes_on_from,
    has_write,
    is_snapshot_of,
)
from kafka_on_spark.metadata.quorum.voter_upkeep import VoterUpkeep
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp, has_expired, log_end_at
from kafka_on_spark.metadata.snapshots import read_snapshot, snapshot_ends, write_snapshot
from kafka_on_spark.store.deadlines import RootHangsError, on_root, within
from kafka_on_spark.store.delta.delta_files import log_folder
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.local_files import METADATA_FILE_BYTES_MAX
from kafka_on_spark.store.root_identity import now_ms_at
from kafka_on_spark.store.roots import RootFiles, StorageOptions

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

MERGE_INTERVAL: Final = 8
"""The process that commits a version divisible by this looks for files to merge."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch, or a run of them, as the bytes of a file: who has written it need not read it to
    copy it. `has_expired`: records in it are gone."""

    time_ms: int
    content: pa.Buffer
    has_expired: bool = False


def _twice(
    read: "Callable[Concatenate[VoterLog, P], T]",
) -> "Callable[Concatenate[VoterLog, P], T]":
    """Have a method read again after a CorruptLogError: the root may have been away for a moment,
    or a merge have been cleaned. Real damage shows on a second read, too."""

    def reading(log: "VoterLog", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            with log._present():
                return read(log, *args, **kwargs)
        except CorruptLogError:
            with log._delta.lock:
                log._delta.reopen_next_time()
                log._load()
            with log._present():
                return read(log, *args, **kwargs)

    return reading


class VoterLog:
    """One voter's table, which its metadata root names, as this process follows it. It is the table
    of one directory: a root that was emptied, and made again, has another. Threads may share it.

    tests/contract/test_voter_log_contract.py holds for it and for its fake in memory.

    Attributes:
        uri: The table, for people and for Spark.
        seen: The newest version of it that was loaded or committed here.
    """

    def __init__(
        self, metadata_root: str, identity: MetadataIdentity, options: StorageOptions
    ) -> None:
        self.key = identity.key
        self.uri = identity.table_at(metadata_root)
        self.root = metadata_root
        self._identity = identity
        self._options = options
        self._files = RootFiles(metadata_root, options)
        self._delta = DeltaLog(self.uri, options)
        self._table: VoterTable | None = None
        self.seen: VoterTable | None = None
        self._log_files: list[LogFile] = []
        self._in_hand: tuple[Sequence[RaftBatch], Sequence[EncodedBatch]] = ((), ())
        self._is_merge_due = False
        self._upkeep = VoterUpkeep(self._files, self.root, self._delta, options, self._load_files)

    # Following

    @on_root
    def load(self) -> VoterTable:
        """Return the newest table. All that it says is durable: commits are flushed here, whoever
        made them, so a voter may be counted for what was loaded.

        Raises:
            ReplicaLostError: There is no table of this directory, or it went back behind what this
                process has seen.
            ClusterNotFoundError: The root was emptied, and has another directory now.
            CorruptLogError: The table breaks an invariant of the log.
            KafkaStorageError: The root does not answer.
        """
        with self._delta.lock:
            try:
                return self._load()
            except CorruptLogError:
                # The root may have been away for a moment: real damage shows on a second look at
                # the whole table, too.
                self._delta.reopen_next_time()
                return self._load()

    def _load(self) -> VoterTable:
        with self._present():
            commits = self._delta.follow()
            if commits is None:
                check_format(self._delta.configuration, self.root, self._identity)
            elif self._table is not None and self._table.version == self._delta.version:
                return self._table
            self._log_files = log_files(self._delta.active_files())
            log = raft_log_of(self._log_files)
            found = table_of(self.key, self._delta.counters(), log, self._delta.version)
            if commits is None and self.seen is not None and not goes_on_from(self.seen, found):
                raise ReplicaLostError("what was seen of the table is not in it any more")
        self._table = self.seen = found
        return found

    def _load_files(self) -> tuple[VoterTable, list[LogFile]]:
        return self._load(), self._log_files

    def _files_now(self) -> list[LogFile]:
        with self._delta.lock:
            return self._load_files()[1]

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Tell a table that went back, where nothing may go on, from one whose root is away, and
        both from another cluster in its place."""
        try:
            yield
        except CorruptLogError:
            self._table = None
            check_replaced(self.root, self._identity, self._options)
            raise
        except ReplicaLostError as error:
            self._table = None
            self._delta.reopen_next_time()
            check_replaced(self.root, self._identity, self._options)
            if not self._files.names(log_folder(self.uri)):
                raise table_gone(self.uri) from error
            raise went_back(self.root) from error
        except BaseException:
            self._table = None
            raise

    def is_newest(self, table: VoterTable) -> bool:
        """Return whether no commit follows `table`, which was loaded or committed here: one look,
        without a lock. Not so where the table went back: `load` says why.
        """
        return self._delta.is_still_at(table.version)

    # Committing

    def commit(
        self,
        table: VoterTable,
        change: TableChange,
        source: "VoterLog | MetadataBatch | None" = None,
    ) -> VoterTable:
        """Commit `change` at the version after `table`; return the table that it leads to.

        What it appends is durable before the commit: the one new batch, or what is copied from
        another voter.

        Raises:
            CommitConflictError: The table had moved on. `change` is not in it.
            CommitOutcomeUnknownError: The store failed. `change` may be in the table.
            CorruptLogError: `source` lacks a batch, or has a damaged one. Nothing was put.
            KafkaStorageError: A root does not answer. Nothing was put.
        """
        batches: Sequence[EncodedBatch] = []
        if isinstance(source, MetadataBatch):
            content = encode_file(source.records, source.stamp, source.base_offset)
            batches = [EncodedBatch(source.stamp.time_ms, content)]
            self._in_hand = change.appended, batches
        elif change.appended:
            assert source is not None, change
            batches = source.copy(change.appended)
            if any(each.has_expired for each in batches):
                self._take_snapshot(source)
        try:
            return within(self.root, partial(self._commit, table, change, batches))
        except RootHangsError as error:
            raise CommitOutcomeUnknownError(error.message) from error
        except RootReadOnlyError as error:
            raise self._refusing(os.strerror(errno.EROFS)) from error

    def _commit(
        self, table: VoterTable, change: TableChange, batches: Sequence[EncodedBatch]
    ) -> VoterTable:
        after = table.apply(change)
        with self._delta.lock:
            if self._table is None or self._table.version < table.version:
                self._load()
            if self._delta.version != table.version:
                raise CommitConflictError("decided on an old version", version=table.version + 1)
            removed = [] if change.cut_to is None else self._files_from(change.cut_to)
            # Every file has a name of its own, so a batch that was cut and is brought back by a
            # later leader has another name than the one that a cleaner may be removing.
            added = [
                write_file(self._files, self.uri, [header], each.content, each.time_ms)
                for header, each in zip(change.appended, batches, strict=True)
            ]
            if added:
                self._files.flush([self.uri])
            try:
                self._delta.commit(
                    table.version,
                    operation="append" if change.appended else "elect",
                    files=[*map(remove_file, removed), *map(add_file, added)],
                    counters=counters_of(change, after),
                )
            except CommitConflictError:
                raise  # nothing was written, and the next load reads what others committed
            except BaseException:
                self._table = None
                raise
            self._log_files = [*self._log_files[: len(self._log_files) - len(removed)], *added]
            self._table = self.seen = after
            self._is_merge_due |= after.version % MERGE_INTERVAL == 0
        return after

    def _files_from(self, offset: Offset) -> list[LogFile]:
        """Return the files to cut, whole ones: what is merged is committed."""
        found = [each for each in self._log_files if each.end_offset > offset]
        if found and found[0].base_offset < offset:
            raise CorruptLogError(f"a merged file would be cut at {offset}", root=self.root)
        return found

    # Reading

    def copy(self, headers: Sequence[RaftBatch]) -> Sequence[EncodedBatch]:
        """Return the batches of `headers`, which follow each other, as one version of the table has
        them: the one that this process has just appended is still in its hand.
        """
        appended, batches = self._in_hand
        return batches if [*appended] == [*headers] else self._read_encoded(headers)

    @on_root
    @_twice
    def _read_encoded(self, headers: Sequence[RaftBatch]) -> list[EncodedBatch]:
        files = self._files_up_to(headers[-1].end_offset, headers)
        return [self._encoded(files, each) for each in headers]

    def _encoded(self, files: Sequence[LogFile], header: RaftBatch) -> EncodedBatch:
        """Return the rows of a header, which may be a long run, as they are: no record is made."""
        newest: list[pa.Table] = []
        has_expired = False

        def parts() -> Iterator[pa.Table]:
            nonlocal has_expired
            for file in files:
                wanted = file.rows_between(header.base_offset, header.end_offset)
                if not wanted or wanted.start >= file.record_count:
                    continue
                for part in decode_tables(*self._content(file), file.record_count, wanted):
                    first = max(wanted.start - first_row(part), 0)
                    rows = part.slice(first, wanted.stop - first_row(part) - first)
                    newest[:] = [rows.slice(rows.num_rows - 1)]
                    has_expired |= expired_rows(rows)
                    yield rows

        content, count = encode_rows(parts())
        if count != header.end_offset - header.base_offset:
            raise CorruptLogError("rows of the metadata log are missing", base=header.base_offset)
        [time_ms] = times_of(newest[0])
        return EncodedBatch(time_ms, content, has_expired)

    @on_root
    @_twice
    def read(self, *, from_offset: Offset, to_offset: Offset) -> list[MetadataBatch]:
        """Return the batches from the border `from_offset` on that end at `to_offset` or before."""
        files = self._files_up_to(to_offset, ())
        wanted = [f for f in files if f.end_offset > from_offset and f.base_offset < to_offset]
        # The last files first: they are small and soon merged, and then deleted a minute later, and
        # a long log takes longer to read.
        parts = [
            decode_file(
                *self._content(file),
                from_offset=from_offset,
                end_offset=to_offset,
                wanted=file.rows_between(from_offset, to_offset),
            )
            for file in reversed(wanted)
        ]
        batches = [batch for part in reversed(parts) for batch in part]
        expected = from_offset
        for batch in batches:
            if batch.base_offset != expected:
                raise CorruptLogError(
                    "a gap in the metadata log", expected=expected, found=batch.base_offset
                )
            expected = batch.end_offset
        if any(map(has_expired, batches)):
            raise self.history_expired()
        return batches

    def _content(self, file: LogFile) -> tuple[bytes, str]:
        path = f"{self.uri}/{file.path}"
        content = self._files.read(path, METADATA_FILE_BYTES_MAX)
        if not content:
            raise CorruptLogError("a file of the metadata log is missing", path=path)
        return content, path

    def _files_up_to(self, to_offset: Offset, headers: Sequence[RaftBatch]) -> Sequence[LogFile]:
        """Return the log's files, of one version of the table, which must reach an offset and have
        `headers`."""
        with self._delta.lock:
            table = self._table or self._load()
            files = self._log_files
        if to_offset > table.log.end_offset:
            raise CorruptLogError(
                "the metadata log ends before what is asked", asked=to_offset, root=self.root
            )
        lacking = (each.write_id for each in headers if not has_write(table.log, each))
        write_id = next(lacking, None)
        if write_id is not None:
            raise CorruptLogError(
                "the metadata log lacks the batch that is to be copied",
                write_id=write_id,
                root=self.root,
            )
        return files

    def history_expired(self) -> HistoryExpiredError:
        """Return the error of a reader that asks for a part of the history that is gone."""
        with self._delta.lock:
            counters = self._delta.counters()
        start, time_ms = counters.get(HISTORY_START, 0), counters.get(HISTORY_START_MS, 0)
        began = datetime.fromtimestamp(time_ms // 1000, UTC)
        return HistoryExpiredError(
            f"the metadata's history before offset {start} ({began:%Y-%m-%d %H:%M:%S} UTC) is gone,"
            " as metadata.max.retention.ms says: ask for what was later"
        )

    def batches_from(self, offset: Offset) -> Iterator[MetadataBatch]:
        """Yield the batch that holds `offset` and those after it, a row group at a time."""
        while (file := self._file_at(offset)) is not None:
            for part in decode_parts(*file):
                for batch in part:
                    if batch.end_offset > offset:
                        if has_expired(batch):
                            raise self.history_expired()
                        yield batch
                        offset = batch.end_offset

    @_twice
    def _file_at(self, offset: Offset) -> tuple[bytes, str] | None:
        found = next((file for file in self._files_now() if file.end_offset > offset), None)
        return None if found is None else self._content(found)

    @on_root
    def root_ms(self) -> int:
        return now_ms_at(self.root, self._options)

    @on_root
    @_twice
    def offset_at(self, time_ms: int) -> Offset:
        """Do as `log_end_at`. This reads the files: a merged file holds many batches, and their
        times may go back."""
        files = self._files_now()
        end = files[-1].end_offset if files else Offset(0)
        times = (batch_times(*self._content(each)) for each in files)
        return log_end_at(chain.from_iterable(times), end, time_ms)

    # The rest of the root

    @on_root
    def snapshots(self) -> list[OffsetAndEpoch]:
        """Return where the root's snapshots end, by their names. None of them is read, so they may
        be damaged, and some may be of other logs than this one."""
        return snapshot_ends(self._files, self.root)

    @on_root
    def read_snapshot(self, end: OffsetAndEpoch) -> MetadataBatch:
        cluster_id = self._identity.cluster_id
        return read_snapshot(self._files, self.root, cluster_id, end)

    @on_root
    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end: OffsetAndEpoch) -> None:
        """Write the records that rebuild the image at `end`, unless they are there."""
        check_replaced(self.root, self._identity, self._options)
        write_snapshot(self._files, self.root, records, stamp, end)

    def _take_snapshot(self, source: "VoterLog") -> None:
        """Copy the newest snapshot of a log whose oldest records are expired, before these are
        copied: this voter may be left alone once it has the rest, and opened."""
        log, there = source.load().log, self.snapshots()
        for end in sorted(source.snapshots(), reverse=True):
            if is_snapshot_of(log, end):
                if end in there:
                    return
                with suppress(*UNREADABLE):
                    batch = source.read_snapshot(end)
                    self.write_snapshot(batch.records, batch.stamp, end)
                    return
        raise KafkaStorageError(
            "the oldest records of the metadata log are expired, and the voter that they are copied"
            " from has no snapshot that can be read: have another one lead, then try again"
        )

    @on_root
    def expire(self, before_ms: int) -> bool:
        """Do as `VoterUpkeep.expire`."""
        return self._upkeep.expire(before_ms, self._is_sound)

    def _is_sound(self, end: OffsetAndEpoch) -> bool:
        try:
            return self.read_snapshot(end).end_offset == end.offset
        except UNREADABLE:
            return False

    def check_writable(self) -> None:
        """Check that this process may write to a local log's folder; a store is not asked."""
        refusal = self._files.write_refusal(f"{self.uri}/_delta_log")
        if refusal is not None:
            raise self._refusing(refusal)

    def _refusing(self, why: str) -> RootAccessDeniedError:
        return RootAccessDeniedError(
            f"the metadata root {self.root} takes no writes of this process ({why}): write as a"
            " user who may, or mount it for writing; nothing was written"
        )

    def may_need_upkeep(self) -> bool:
        """Return whether `maintain` may have something to do: without a request, or a lock."""
        return self._is_merge_due or self._delta.may_need_checkpoint()

    @on_root
    def maintain(self) -> bool:
        """Write a checkpoint if one is due, and clean; merge small files when there are many.
        Return whether the table has gone on by that, though no row and no counter changed."""
        if self._delta.checkpoint_if_due():
            self._upkeep.clean_after_checkpoint()
        with self._delta.lock:
            is_due, self._is_merge_due = self._is_merge_due, False
        return is_due and self._upkeep.merge()

    @on_root
    def merge(self) -> bool:
        return self._upkeep.merge()

    @on_root
    def clean(self, now_ms: int) -> int:
        count = self._upkeep.clean(now_ms)
        clean_log(self._files, self.uri)
        return count


OpenVoterLog = Callable[[Voter], VoterLog]
"""Returns a voter's log; nothing is read yet."""
