"""The voters' logs in Delta tables, as this process follows them: a commit is one version of a
table, a batch one file. Snapshots are Parquet files of the same columns beside it.

Only files below the last decision of the voter's own log are merged: it proves them committed, so
no cut falls into a merged file.

A file may go that the table does not name, if it was listed before the table was read, if the file
that has its rows now was read back, and if no commit will name it: the table has removed it (its
log has a tombstone of it), or a commit that would name it can't succeed any more. Only a log that
ends where a batch begins can name an append's file, and a merge's only while the files stand whose
rows it has. Both show in the file and in the table, so a late cleaner does no harm, and what is
under way stays however long it takes.

Who writes a checkpoint of the table cleans it afterwards, a leader's as a follower's: a voter's
disk needs nobody else to stay small.
"""

import errno
import logging
import os
import re
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, chain, groupby, takewhile
from typing import Concatenate, Final, ParamSpec, TypeVar

import pyarrow as pa

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    HistoryExpiredError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
    RootAccessDeniedError,
    RootReadOnlyError,
)
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.base.merge_tiers import (
    MERGED_BYTES_MAX,
    MergeBounds,
    merges_of_lowest_tier,
)
from kafka_on_spark.metadata.metadata_files import (
    FILE_NAME,
    HISTORY_START,
    HISTORY_START_MS,
    LOG_END_OFFSET,
    BatchPlace,
    LogFile,
    batch_places,
    check_format,
    counters_of,
    decode_file,
    decode_parts,
    decode_tables,
    encode_file,
    encode_rows,
    entry_of,
    expired_rows,
    first_row,
    last_time_ms,
    log_files,
    merge_files,
    raft_log_of,
    table_of,
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
    runs_of,
)
from kafka_on_spark.metadata.records import (
    ClusterRecord,
    MetadataBatch,
    Record,
    Stamp,
    has_expired,
    log_end_at,
)
from kafka_on_spark.metadata.temporaries import clean_metadata_root
from kafka_on_spark.store.deadlines import (
    Call,
    RootHangsError,
    SystemClock,
    begin,
    on_root,
    until_committed,
    within,
)
from kafka_on_spark.store.delta.delta_files import log_folder
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.delta.log_cleaning import clean_log
from kafka_on_spark.store.error_translation import reason
from kafka_on_spark.store.local_files import METADATA_FILE_BYTES_MAX
from kafka_on_spark.store.root_identity import now_ms_at, put_and_delete
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local

DELETE_DELAY_MS: Final = 60_000
"""How long a replaced file stays for readers that planned before. One that misses a file reads the
table again, and finds its rows in another; so this need not be long, and is not that of replicas,
whose readers plan hours of work."""

CLEANER_MS: Final = 2 * DELETE_DELAY_MS
"""For how much longer checkpoints name a removed file: each names all of that time. A file whose
removal they have forgotten is read, and judged by its rows."""

DELETED_MAX: Final = 1000
"""Files that are deleted at once after a checkpoint: ten for each commit since the last one."""

TRIED_BYTES: Final = 32 * 1024
"""A root with room for less takes a few more commits at most."""

log = logging.getLogger(__name__)

MERGE: Final = "merge"
"""The operation of a commit that changes no row."""

BOUNDS: Final = MergeBounds(size_bytes_max=MERGED_BYTES_MAX, records_max=1 << 22, filling_min=3)
"""Each active file costs every commit about 0.02 ms, so that few of the largest are merged as well:
a log has at most about 130 files, and one for each three million records, which are 3.6 days of 10
commits a second."""


_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.parquet")
"""The end offset of a snapshot, and the epoch of its last record."""

SNAPSHOTS_KEPT: Final = 3
"""The newest ones. Two may be damaged, and a process starts."""


def kept_snapshots(ends: Collection[int]) -> set[int]:
    """Return the end offsets of the snapshots that stay.

    Of those at a distance of 2^n to 2^(n+1) records from the newest, the oldest: as the newest goes
    on, it is the one that comes to the next such distance. So a process that wants an old moment
    replays no more than the distance to it.
    """
    newest_first = sorted(ends, reverse=True)
    oldest: dict[int, int] = {}
    for end in newest_first:
        oldest[(newest_first[0] - end).bit_length()] = end
    return {*newest_first[:SNAPSHOTS_KEPT], *oldest.values()}


def files_to_merge(files: Sequence[LogFile]) -> Sequence[LogFile]:
    """Return the adjacent files to merge into one, in order, or none."""
    runs = [(list(run), False) for full, run in groupby(files, BOUNDS.is_full) if not full]
    return next(iter(merges_of_lowest_tier(runs, BOUNDS)), ())


def files_to_expire(
    files: Sequence[LogFile], start: int, end: int, before_ms: int
) -> list[LogFile]:
    """Return the files whose records are to be given up, in order: the oldest ones, as many as one
    file may hold, that end after `start`, where the history begins, and at `end` or before, and
    whose newest batch is older than `before_ms`."""
    old = takewhile(lambda file: file.end_offset <= end and file.time_ms < before_ms, files)
    run = [file for file in old if file.end_offset > start]
    records = accumulate(file.record_count for file in run)
    sizes = accumulate(file.size_bytes for file in run)
    fits = zip(records, sizes, strict=True)
    count = sum(end <= BOUNDS.records_max and size <= MERGED_BYTES_MAX for end, size in fits)
    return run[: max(count, 2)]


def write_merged(
    files: RootFiles, uri: str, merged: Sequence[LogFile], *, expires: bool = False
) -> LogFile:
    """Write the rows of files as one flushed file, order unchanged; return it. `expires`: without
    what their records say."""
    paths = [f"{uri}/{file.path}" for file in merged]
    content, count = merge_files(
        ((files.read(path, METADATA_FILE_BYTES_MAX), path) for path in paths), expires=expires
    )
    if count != merged[-1].end_offset - merged[0].base_offset:
        raise CorruptLogError("files of the metadata log have other rows than the table says")
    runs = runs_of(batch for file in merged for batch in file.batches)
    written = write_file(files, uri, runs, content, merged[-1].time_ms)
    files.flush([uri])
    return written


P = ParamSpec("P")
T = TypeVar("T")

LISTED_MS_MAX: Final = 5_000
"""A list of snapshots that was begun longer ago is made again."""

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
        self._put_early: LogFile | None = None
        self._listed: tuple[Call[list[OffsetAndEpoch]], int] | None = None
        self._is_merge_due = False
        self._sound: set[str] = set()  # merged files that were read back

    @on_root
    @_twice
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

    def has_successor(self, table: VoterTable) -> bool:
        """Return whether a commit follows `table`, by one request, which proves less than
        `is_newest`; as of DeltaLog."""
        return self._delta.has_successor(table.version)

    def _newest_files(self) -> list[LogFile]:
        with self._delta.lock:
            self._load()
            return self._log_files

    @on_root
    def root_ms(self) -> int:
        return now_ms_at(self.root, self._options)

    def list_early(self) -> None:
        """On a store, begin to list the snapshots: whoever opens a log needs them."""
        if not is_local(self.root):
            with suppress(KafkaStorageError):
                self._listed = begin(self.root, self._list), SystemClock().monotonic_ms()

    def snapshots(self) -> list[OffsetAndEpoch]:
        """Return where the root's snapshots end, by their names. None of them is read, so they may
        be damaged, and some may be of other logs than this one: a process that was frozen may leave
        one of an earlier cluster, or generation. The log says which count (`is_snapshot_of`)."""
        listed, self._listed = self._listed, None
        if listed is not None and SystemClock().monotonic_ms() - listed[1] < LISTED_MS_MAX:
            return listed[0].in_time()
        return self._list()

    @on_root
    def _list(self) -> list[OffsetAndEpoch]:
        names = map(_SNAPSHOT_NAME.fullmatch, self._files.names(f"{self.root}/snapshots"))
        return [OffsetAndEpoch(Offset(int(n[1])), QuorumEpoch(int(n[2]))) for n in names if n]

    def _snapshot_path(self, end: OffsetAndEpoch) -> str:
        return f"{self.root}/snapshots/{end.offset:020d}-{end.epoch:010d}.parquet"

    @on_root
    def read_snapshot(self, end: OffsetAndEpoch) -> MetadataBatch:
        """Return a snapshot of this cluster, as a batch that ends at its end offset."""
        path = self._snapshot_path(end)
        batches = decode_file(self._files.read(path, METADATA_FILE_BYTES_MAX), path)
        if len(batches) != 1 or batches[0].end_offset != end.offset:
            raise CorruptLogError("a snapshot is not what its name says", path=path)
        first, *_ = batches[0].records
        cluster_id = first.cluster_id if isinstance(first, ClusterRecord) else None
        if cluster_id != self._identity.cluster_id:
            raise CorruptLogError("a snapshot is another cluster's", path=path)
        return batches[0]

    @on_root
    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end: OffsetAndEpoch) -> None:
        """Write the records that rebuild the image at `end`, unless they are there."""
        check_replaced(self.root, self._identity, self._options)
        content = encode_file(records, stamp, end.offset - len(records))
        self._files.write_if_absent(self._snapshot_path(end), content.to_pybytes())

    def _is_sound(self, end: OffsetAndEpoch) -> bool:
        try:
            return self.read_snapshot(end).end_offset == end.offset
        except UNREADABLE:
            return False

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
            batches = [_encoded(source)]
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

    @on_root
    def put_early(self, change: TableChange, batch: MetadataBatch) -> None:
        """Put the file of a new batch, for the commit of this very change, which may come or not:
        no table names it before."""
        encoded, uri = _encoded(batch), self.uri
        file = write_file(self._files, uri, change.appended, encoded.content, encoded.time_ms)
        self._put_early = file

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
            early, self._put_early = self._put_early, None
            if early is not None and early.batches == change.appended:
                added = [early]
            else:
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
                    adds=map(entry_of, added),
                    removes=map(entry_of, removed),
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
        time_ms, has_expired = 0, False

        def parts() -> Iterator[pa.Table]:
            nonlocal time_ms, has_expired
            for file in files:
                wanted = file.rows_between(header.base_offset, header.end_offset)
                if not wanted or wanted.start >= file.record_count:
                    continue
                for part in decode_tables(*self._content(file), file.record_count, wanted):
                    first = max(wanted.start - first_row(part), 0)
                    rows = part.slice(first, wanted.stop - first_row(part) - first)
                    time_ms, has_expired = last_time_ms(rows), has_expired or expired_rows(rows)
                    yield rows

        content, count = encode_rows(parts())
        if count != header.end_offset - header.base_offset:
            raise CorruptLogError("rows of the metadata log are missing", base=header.base_offset)
        return EncodedBatch(time_ms, content, has_expired)

    @on_root
    @_twice
    def read(self, *, from_offset: Offset, to_offset: Offset) -> list[MetadataBatch]:
        """Return the batches from the border `from_offset` on that end at `to_offset` or before."""
        files = self._files_up_to(to_offset, ())
        wanted = [f for f in files if f.end_offset > from_offset and f.base_offset < to_offset]
        # The last files first: they are small and soon merged, and then deleted a minute later, and
        # a long log takes longer to read.
        wanted.reverse()
        parts = [
            decode_file(
                *content,
                from_offset=from_offset,
                end_offset=to_offset,
                wanted=file.rows_between(from_offset, to_offset),
            )
            for file, content in zip(wanted, self._contents(wanted), strict=True)
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
        return next(self._contents([file]))

    def _contents(self, files: Sequence[LogFile]) -> Iterator[tuple[bytes, str]]:
        """Yield the bytes of files, and their paths; as `RootFiles.read_all`."""
        paths = [f"{self.uri}/{each.path}" for each in files]
        found = self._files.read_all(paths, METADATA_FILE_BYTES_MAX)
        for path, content in zip(paths, found, strict=True):
            if not content:
                raise CorruptLogError("a file of the metadata log is missing", path=path)
            yield content, path

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
        found = next((file for file in self._newest_files() if file.end_offset > offset), None)
        return None if found is None else self._content(found)

    @on_root
    @_twice
    def offset_at(self, time_ms: int) -> Offset:
        """Do as `log_end_at`. This reads the files: a merged file holds many batches, and their
        times may go back."""
        files = self._newest_files()
        end = files[-1].end_offset if files else Offset(0)
        places = chain.from_iterable(batch_places(*self._content(each)) for each in files)
        return log_end_at(((each.base_offset, each.time_ms) for each in places), end, time_ms)

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
    def check_writable(self) -> None:
        """Check that this process may write to a local log's folder; a store is not asked."""
        refusal = self._files.write_refusal(f"{self.uri}/_delta_log")
        if refusal is not None:
            raise self._refusing(refusal)

    def try_write(self) -> None:
        """Write a small file on a local root, and delete it; a store is not asked.

        Raises:
            RootFullError, RootReadOnlyError, KafkaStorageError: It takes no commit now.
        """
        if is_local(self.root):
            put_and_delete(self.root, self._options, TRIED_BYTES)

    def _refusing(self, why: str) -> RootAccessDeniedError:
        return RootAccessDeniedError(
            f"the metadata root {self.root} takes no writes of this process ({why}): write as a"
            " user who may, or mount it for writing; nothing was written"
        )

    # Upkeep

    def may_need_upkeep(self) -> bool:
        """Return whether `maintain` may have something to do: without a request, or a lock."""
        return self._is_merge_due or self._delta.may_need_checkpoint()

    @on_root
    def maintain(self, *, cleans: bool = True) -> bool:
        """Write a checkpoint if one is due. If it `cleans`, clean, and merge small files when there
        are many. Return whether the table has gone on by that, though no row and no counter
        changed."""
        if self._delta.checkpoint_if_due(cleans=cleans) and cleans:
            self.clean_after_checkpoint()
        if not cleans:
            return False
        with self._delta.lock:
            is_due, self._is_merge_due = self._is_merge_due, False
        return is_due and self.merge()

    def clean_after_checkpoint(self) -> None:
        """Clean, also after a checkpoint that failed: a full disk gets room."""
        try:
            self._clean(time.time_ns() // 1_000_000, DELETED_MAX)
        except (KafkaOnSparkError, OSError) as error:  # what is left takes space only
            log.warning("files of %s stay: %s", self.uri, reason(error, self._options))

    @on_root
    def clean(self, now_ms: int) -> int:
        """Delete what nobody needs; return how many files, old commits apart."""
        count = self._clean(now_ms)
        clean_log(self._files, self.uri)
        return count

    def _clean(self, now_ms: int, deleted_max: int | None = None) -> int:
        """Delete files that merges replaced, `deleted_max` of them at most, old snapshots, and what
        killed processes left. Return how many."""
        parts: tuple[Callable[[], int], ...] = (
            lambda: self._clean_replaced(now_ms, deleted_max),
            self._clean_snapshots,
            lambda: clean_metadata_root(self.root, self.uri, self._options),
        )
        errors: list[Exception] = []
        count = 0
        for clean in parts:
            try:
                count += clean()
            except (KafkaOnSparkError, OSError) as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return count

    def _clean_snapshots(self) -> int:
        """Delete the snapshots of this log that are not kept. One of another log says nothing of
        which others are needed, and stays: it may hold what a log that was rolled back has lost."""
        log = self.load().log
        ends = [each for each in self.snapshots() if is_snapshot_of(log, each)]
        kept = kept_snapshots([each.offset for each in ends])
        due = [each for each in ends if each.offset not in kept]
        for each in due:
            self._files.delete_file(self._snapshot_path(each))
        return len(due)

    def _clean_replaced(self, now_ms: int, deleted_max: int | None) -> int:
        # Listed before the table is read.
        listed = sorted(name for name in self._files.names(self.uri) if FILE_NAME.fullmatch(name))
        active = self._newest_files()
        named = {file.path for file in active}
        self._sound.intersection_update(named)
        with self._delta.lock:
            removed_at_ms = self._delta.tombstones()
        count = 0
        for name in listed:
            if name in named:
                continue
            if name in removed_at_ms:
                # A time far ahead is of a wrong clock, and says nothing.
                is_out = abs(now_ms - removed_at_ms[name]) >= DELETE_DELAY_MS
            else:
                is_out = self._is_settled(name, active)
            if is_out and self._is_kept_elsewhere(name, active):
                # Another cleaner may have been faster.
                self._files.delete_file(f"{self.uri}/{name}")
                count += 1
                if count == deleted_max:
                    break
        return count

    def _is_settled(self, name: str, active: Sequence[LogFile]) -> bool:
        """Return whether no commit will name a file any more that the table neither names nor tells
        to have removed.

        A file with one batch is an append's. A merge's has several, and goes if one active file has
        all of their rows: then what it was merged from is there no longer.
        """
        try:
            places = self._places(name)
        except KafkaOnSparkError as error:
            log.info("%s/%s is not named, and stays: %s", self.uri, name, error)
            return False
        if not places or not active:
            return False
        base_offset, end_offset = places[0].base_offset, places[-1].end_offset
        if len(places) == 1:
            return base_offset < active[-1].end_offset
        return any(
            file.base_offset <= base_offset and end_offset <= file.end_offset for file in active
        )

    def _is_kept_elsewhere(self, name: str, active: Sequence[LogFile]) -> bool:
        """Return whether the active file that has the rows of a replaced one can be read."""
        base_offset = int(name.split("-")[0])
        place = bisect_right(active, base_offset, key=lambda file: file.base_offset) - 1
        if place < 0 or base_offset >= active[place].end_offset:
            return False
        file = active[place]
        if file.path not in self._sound:
            try:
                places = self._places(file.path)
            except KafkaOnSparkError as error:
                log.warning("what %s/%s was merged from stays: %s", self.uri, file.path, error)
                return False
            if sum(e.end_offset - e.base_offset for e in places) == file.record_count:
                self._sound.add(file.path)
        return file.path in self._sound

    def _places(self, name: str) -> list[BatchPlace]:
        path = f"{self.uri}/{name}"
        return batch_places(self._files.read(path, METADATA_FILE_BYTES_MAX), path)

    @on_root
    def merge(self) -> bool:
        """Write adjacent small files as one, rows and order unchanged; return whether that was
        done. Appends may go on meanwhile; the commit is one like any other."""
        with self._delta.lock:
            proved_end, files = self._load().log.proved_end, self._log_files
        merged = files_to_merge([each for each in files if each.end_offset <= proved_end])
        if not merged:
            return False
        written = write_merged(self._files, self.uri, merged)
        return self._replace(merged, written, {})

    @on_root
    def expire(self, before_ms: int) -> bool:
        """Give up the records of the oldest files that are older than `before_ms`, as many as one
        file may hold; return whether there were any.

        Only below the newest three snapshots of this root, of which the oldest can be read: whoever
        opens this voter alone needs no record before that, also if two of them are damaged.
        """
        with self._delta.lock:
            log, files = self._load().log, self._log_files
            counters = self._delta.counters()
        files = [each for each in files if each.end_offset <= log.proved_end]
        ends = sorted(self.snapshots())
        kept = [each for each in ends if is_snapshot_of(log, each)][-SNAPSHOTS_KEPT:]
        if len(kept) < SNAPSHOTS_KEPT:
            return False
        start = counters.get(HISTORY_START, 0)
        expired = files_to_expire(files, start, kept[0].offset, before_ms)
        if not expired or not self._is_sound(kept[0]):
            return False
        written = write_merged(self._files, self.uri, expired, expires=True)
        newest_ms = max(counters.get(HISTORY_START_MS, 0), *(each.time_ms for each in expired))
        begins = {HISTORY_START: written.end_offset, HISTORY_START_MS: newest_ms}
        return self._replace(expired, written, begins)

    def _replace(
        self, replaced: Sequence[LogFile], written: LogFile, counters: dict[str, int]
    ) -> bool:
        """Commit that a file stands in the place of others; return whether that was done."""

        def read() -> tuple[VoterTable, list[LogFile]]:
            with self._delta.lock:
                return self._load(), self._log_files

        def commit(found: tuple[VoterTable, list[LogFile]]) -> bool:
            table, files = found
            # What was merged by another process stands in another file; what is merged was
            # committed, so it was not cut.
            if not {each.path for each in replaced} <= {each.path for each in files}:
                return False
            with self._delta.lock:
                self._delta.commit(
                    table.version,
                    operation=MERGE,
                    adds=[entry_of(written, changes_data=False)],
                    removes=[entry_of(each, changes_data=False) for each in replaced],
                    counters={LOG_END_OFFSET: table.log.end_offset, **counters},
                )
            return True

        is_replaced = until_committed(read, commit, clock=SystemClock())
        if is_replaced and self._delta.checkpoint_if_due():
            self.clean_after_checkpoint()
        return is_replaced


def _encoded(batch: MetadataBatch) -> EncodedBatch:
    content = encode_file(batch.records, batch.stamp, batch.base_offset)
    return EncodedBatch(batch.stamp.time_ms, content)


OpenVoterLog = Callable[[Voter], VoterLog]
"""Returns a voter's log; nothing is read yet."""
