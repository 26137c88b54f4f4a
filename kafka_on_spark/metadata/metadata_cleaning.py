"""Cleans a metadata root: files of the log that a merge has replaced, and old snapshots.

The rows of the log are kept for ever. A file may go that the table does not name, if it was listed
before the table was read, if the file that has its rows now was read back, and if no commit will
name it: the table has removed it (its log has a tombstone of it), or a commit that would name it
can't succeed any more. Only a log that ends where a batch begins can name an append's file,
and a merge's only while the files stand whose rows it has. Both show in the file and in the table,
so a late cleaner does no harm, and what is under way stays however long it takes.

Who writes a checkpoint of the table cleans it afterwards, a leader's as a follower's: it has just
written which files are removed. So a voter's disk needs nobody else to stay small.

Of the snapshots the newest three stay, and of the older ones one for each doubling of the distance
to the newest: a process that wants an old moment replays no more than that distance.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.metadata_files import batch_extents
from kafka_on_spark.metadata.metadata_snapshots import end_in_name
from kafka_on_spark.metadata.quorum.raft_log import RaftLog, is_snapshot_of
from kafka_on_spark.metadata.temporaries import clean_metadata_root
from kafka_on_spark.metadata.voter_format import LogFile, is_file_name, raft_log_of
from kafka_on_spark.store.delta.log_cleaning import read_tombstones
from kafka_on_spark.store.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.store.roots import RootFiles, StorageOptions

log = logging.getLogger(__name__)

DELETE_DELAY_MS: Final = 60_000
"""How long a replaced file stays for readers that planned before. One that misses a file reads the
table again, and finds its rows in another; so this need not be long, and is not that of replicas,
whose readers plan hours of work."""

CLEANER_MS: Final = 2 * DELETE_DELAY_MS
"""For how much longer checkpoints name a removed file: each names all of that time. A file whose
removal they have forgotten is read, and judged by its rows."""

DELETED_MAX: Final = 1000
"""Files that are deleted at once after a checkpoint: ten for each commit since the last one."""

SNAPSHOTS_KEPT: Final = 3
"""Two may be damaged, and a process starts."""


class MetadataCleaner:
    """Cleans one metadata root: files that merges replaced, old snapshots, what killed processes
    left."""

    def __init__(self, files: RootFiles, root: str, uri: str, options: StorageOptions) -> None:
        self._files = files
        self._root = root
        self._uri = uri
        self._options = options
        self._sound: set[str] = set()  # merged files that were read back

    def clean(
        self,
        read_table: Callable[[], list[LogFile]],
        now_ms: int,
        deleted_max: int | None = None,
    ) -> int:
        """Delete what nobody needs; return how many files. Of those that merges replaced at most
        `deleted_max` go.

        `read_table` returns the log's files, in the order of their rows.

        Raises:
            KafkaOnSparkError, OSError: One of the parts failed, of the first; the others are done.
        """
        parts: tuple[Callable[[], int], ...] = (
            lambda: self._clean_replaced(read_table, now_ms, deleted_max),
            lambda: clean_snapshots(self._files, self._root, raft_log_of(read_table())),
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

    def _clean_replaced(
        self, read_table: Callable[[], list[LogFile]], now_ms: int, deleted_max: int | None
    ) -> int:
        # Listed before the table is read.
        listed = sorted(name for name in self._files.names(self._uri) if is_file_name(name))
        active = read_table()
        named = {file.path for file in active}
        self._sound.intersection_update(named)
        removed_at_ms = read_tombstones(self._files, self._uri)
        due = (
            name
            for name in listed
            if name not in named and self._is_due(name, active, removed_at_ms, now_ms)
        )
        count = 0
        for name in islice(due, deleted_max):
            # Another cleaner may have been faster.
            self._files.delete_file(f"{self._uri}/{name}")
            count += 1
        return count

    def _is_due(
        self,
        name: str,
        active: Sequence[LogFile],
        removed_at_ms: Mapping[str, int],
        now_ms: int,
    ) -> bool:
        """Return whether a file that the table does not name may be deleted: it was removed some
        time ago, or is never to be named. A time far ahead is of a wrong clock, and says nothing.

        `active`: the table's files, in the order of their rows, read after the listing.
        """
        if name in removed_at_ms:
            is_out = abs(now_ms - removed_at_ms[name]) >= DELETE_DELAY_MS
        else:
            is_out = self._is_settled(name, active)
        return is_out and self._is_kept_elsewhere(name, active)

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
        if file.path not in self._sound and self._is_sound(file):
            self._sound.add(file.path)
        return file.path in self._sound

    def _is_sound(self, file: LogFile) -> bool:
        try:
            extents = self._extents(file.path)
        except KafkaOnSparkError as error:
            log.warning("what %s/%s was merged from stays: %s", self._uri, file.path, error)
            return False
        return sum(end - base for base, end in extents) == file.size

    def _extents(self, name: str) -> list[tuple[Offset, Offset]]:
        path = f"{self._uri}/{name}"
        content = self._files.read(path, METADATA_FILE_BYTES_MAX)
        return batch_extents(content, path)

    def _clean_unfinished(self) -> int:
        cleaned = clean_metadata_root(self._root, self._uri, self._options)
        if cleaned.error is not None:
            raise KafkaStorageError(cleaned.error)
        return cleaned.count


def clean_snapshots(files: RootFiles, metadata_root: str, log: RaftLog) -> int:
    """Delete the snapshots of a log that are not kept; return how many.

    One that is not of this log says nothing of which others are needed, and stays: it may hold what
    a log that was rolled back has lost.
    """
    folder = f"{metadata_root}/snapshots"
    ends = {
        name: end.offset
        for name in files.names(folder)
        if (end := end_in_name(name)) is not None and is_snapshot_of(log, end)
    }
    kept = kept_snapshots(ends.values())
    due = [name for name, end in ends.items() if end not in kept]
    for name in due:
        files.delete_file(f"{folder}/{name}")
    return len(due)


def kept_snapshots(ends: Collection[int]) -> set[int]:
    """Return the end offsets of the snapshots that stay.

    Of those at a distance of 2^n to 2^(n+1) records from the newest, the oldest: as the newest goes
    on, it is the one that comes to the next such distance.
    """
    newest_first = sorted(ends, reverse=True)
    oldest: dict[int, int] = {}
    for end in newest_first:
        oldest[(newest_first[0] - end).bit_length()] = end
    return {*newest_first[:SNAPSHOTS_KEPT], *oldest.values()}
