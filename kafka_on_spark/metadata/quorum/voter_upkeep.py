"""Keeps a voter's root small: checkpoints with the cleaning after them, and merges of small files.

Only files below the last decision of the voter's own log are merged: it proves them committed, so
no cut falls into a merged file.

The rows of the log are kept for ever, unless `metadata.max.retention.ms` is set. A file may go that
the table does not name, if it was listed before the table was read, if the file that has its rows
now was read back, and if no commit will name it: the table has removed it (its log has a tombstone
of it), or a commit that would name it can't succeed any more. Only a log that ends where a batch
begins can name an append's file, and a merge's only while the files stand whose rows it has. Both
show in the file and in the table, so a late cleaner does no harm, and what is under way stays
however long it takes.

Who writes a checkpoint of the table cleans it afterwards, a leader's as a follower's: it has just
written which files are removed. So a voter's disk needs nobody else to stay small.
"""

import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby, takewhile
from typing import Final

from kafka_on_spark.base.errors import (
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import Offset
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
    LogFile,
    add_file,
    batch_extents,
    merge_files,
    remove_file,
    write_file,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    OffsetAndEpoch,
    VoterTable,
    is_snapshot_of,
    runs_of,
)
from kafka_on_spark.metadata.snapshots import (
    SNAPSHOTS_KEPT,
    clean_snapshots,
    snapshot_ends,
)
from kafka_on_spark.metadata.temporaries import clean_metadata_root
from kafka_on_spark.store.deadlines import SystemClock, until_committed
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.delta.log_cleaning import read_tombstones
from kafka_on_spark.store.error_translation import reason
from kafka_on_spark.store.local_files import METADATA_FILE_BYTES_MAX
from kafka_on_spark.store.roots import RootFiles, StorageOptions

DELETE_DELAY_MS: Final = 60_000
"""How long a replaced file stays for readers that planned before. One that misses a file reads the
table again, and finds its rows in another; so this need not be long, and is not that of replicas,
whose readers plan hours of work."""

CLEANER_MS: Final = 2 * DELETE_DELAY_MS
"""For how much longer checkpoints name a removed file: each names all of that time. A file whose
removal they have forgotten is read, and judged by its rows."""

DELETED_MAX: Final = 1000
"""Files that are deleted at once after a checkpoint: ten for each commit since the last one."""

log = logging.getLogger(__name__)

MERGE: Final = "merge"
"""The operation of a commit that changes no row."""

BOUNDS: Final = MergeBounds(size_bytes_max=MERGED_BYTES_MAX, records_max=1 << 22, filling_min=3)
"""Each active file costs every commit about 0.02 ms, so that few of the largest are merged as well:
a log has at most about 130 files, and one for each three million records, which are 3.6 days of 10
commits a second."""


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


class VoterUpkeep:
    """What is due on one voter's table after the answers were given.

    `load` goes on to the newest version, under the lock, and returns its files in order, too.
    """

    def __init__(
        self,
        files: RootFiles,
        root: str,
        delta: DeltaLog,
        options: StorageOptions,
        load: Callable[[], tuple[VoterTable, list[LogFile]]],
    ) -> None:
        self._files = files
        self._root = root
        self._uri = delta.uri
        self._delta = delta
        self._options = options
        self._load = load
        self._sound: set[str] = set()  # merged files that were read back

    def clean_after_checkpoint(self) -> None:
        """Clean, also after a checkpoint that failed: a full disk gets room."""
        try:
            self.clean(time.time_ns() // 1_000_000, DELETED_MAX)
        except (KafkaOnSparkError, OSError) as error:  # what is left takes space only
            log.warning("files of %s stay: %s", self._uri, reason(error, self._options))

    def clean(self, now_ms: int, deleted_max: int | None = None) -> int:
        """Delete what nobody needs, old commits apart: files that merges replaced, `deleted_max` of
        them at most, old snapshots, what killed processes left. Return how many files."""
        parts: tuple[Callable[[], int], ...] = (
            lambda: self._clean_replaced(now_ms, deleted_max),
            lambda: clean_snapshots(self._files, self._root, self._read_table()[0].log),
            self._clean_unfinished,
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

    def _read_table(self) -> tuple[VoterTable, list[LogFile]]:
        with self._delta.lock:
            return self._load()

    def _clean_replaced(self, now_ms: int, deleted_max: int | None) -> int:
        # Listed before the table is read.
        listed = sorted(name for name in self._files.names(self._uri) if FILE_NAME.fullmatch(name))
        _, active = self._read_table()
        named = {file.path for file in active}
        self._sound.intersection_update(named)
        removed_at_ms = read_tombstones(self._files, self._uri)
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
                self._files.delete_file(f"{self._uri}/{name}")
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
            extents = self._extents(name)
        except KafkaOnSparkError as error:
            log.info("%s/%s is not named, and stays: %s", self._uri, name, error)
            return False
        if not extents or not active:
            return False
        base_offset, end_offset = extents[0][0], extents[-1][1]
        if len(extents) == 1:
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
                extents = self._extents(file.path)
            except KafkaOnSparkError as error:
                log.warning("what %s/%s was merged from stays: %s", self._uri, file.path, error)
                return False
            if sum(end - base for base, end in extents) == file.record_count:
                self._sound.add(file.path)
        return file.path in self._sound

    def _extents(self, name: str) -> list[tuple[Offset, Offset]]:
        path = f"{self._uri}/{name}"
        content = self._files.read(path, METADATA_FILE_BYTES_MAX)
        return batch_extents(content, path)

    def _clean_unfinished(self) -> int:
        cleaned = clean_metadata_root(self._root, self._uri, self._options)
        if cleaned.error is not None:
            raise KafkaStorageError(cleaned.error)
        return cleaned.count

    def merge(self) -> bool:
        """Write adjacent small files as one, rows and order unchanged; return whether that was
        done. Appends may go on meanwhile; the commit is one like any other."""
        table, files = self._read_table()
        merged = files_to_merge([e for e in files if e.end_offset <= table.log.proved_end])
        if not merged:
            return False
        written = write_merged(self._files, self._uri, merged)
        return self._replace(merged, written, {})

    def expire(self, before_ms: int, is_sound: Callable[[OffsetAndEpoch], bool]) -> bool:
        """Give up the records of the oldest files that are older than `before_ms`, as many as one
        file may hold; return whether there were any.

        Only below the newest three snapshots of this root, of which the oldest `is_sound`: whoever
        opens this voter alone needs no record before that, also if two of them are damaged.
        """
        with self._delta.lock:
            table, files = self._load()
            counters = self._delta.counters()
        log = table.log
        files = [each for each in files if each.end_offset <= log.proved_end]
        ends = sorted(each for each in snapshot_ends(self._files, self._root))
        kept = [each for each in ends if is_snapshot_of(log, each)][-SNAPSHOTS_KEPT:]
        if len(kept) < SNAPSHOTS_KEPT:
            return False
        start = counters.get(HISTORY_START, 0)
        expired = files_to_expire(files, start, kept[0].offset, before_ms)
        if not expired or not is_sound(kept[0]):
            return False
        written = write_merged(self._files, self._uri, expired, expires=True)
        newest_ms = max(counters.get(HISTORY_START_MS, 0), *(each.time_ms for each in expired))
        begins = {HISTORY_START: written.end_offset, HISTORY_START_MS: newest_ms}
        return self._replace(expired, written, begins)

    def _replace(
        self, replaced: Sequence[LogFile], written: LogFile, counters: dict[str, int]
    ) -> bool:
        """Commit that a file stands in the place of others; return whether that was done."""

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
                    files=[
                        *(remove_file(each, changes_data=False) for each in replaced),
                        add_file(written, changes_data=False),
                    ],
                    counters={LOG_END_OFFSET: table.log.end_offset, **counters},
                )
            return True

        is_replaced = until_committed(self._read_table, commit, clock=SystemClock())
        if is_replaced and self._delta.checkpoint_if_due():
            self.clean_after_checkpoint()
        return is_replaced
