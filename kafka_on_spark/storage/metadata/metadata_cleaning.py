"""Cleans a metadata root: files of the log that a merge has replaced, and old snapshots.

The rows of the log are kept for ever. A file may go that the table does not name, if it was listed
before the table was read, if the file that has its rows now was read back, and if no commit will
name it: the table has removed it (its log has a tombstone of it), or a commit that would name it
can't succeed any more. Only a log that ends where a batch begins can name an append's file,
and a merge's only while the files stand whose rows it has. Both show in the file and in the table,
so a late cleaner does no harm, and what is under way stays however long it takes.

Of the snapshots the newest three stay, and of the older ones one for each doubling of the distance
to the newest: a process that wants an old moment replays no more than that distance.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.ids import Offset
from kafka_on_spark.ports.metadata import CleanedFiles
from kafka_on_spark.raft.log.raft_log import RaftLog
from kafka_on_spark.raft.log.snapshots import is_snapshot_of
from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.delta.log_cleaning import clean_log
from kafka_on_spark.storage.delta.tombstones import read_tombstones
from kafka_on_spark.storage.metadata.metadata_files import batch_extents
from kafka_on_spark.storage.metadata.metadata_placement import LogFile, is_file_name, raft_log_of
from kafka_on_spark.storage.metadata.metadata_snapshots import end_in_name
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions
from kafka_on_spark.storage.temporaries import clean_metadata_root

log = logging.getLogger(__name__)

SNAPSHOTS_KEPT: Final = 3
"""Two may be damaged, and a process starts."""


class ReplacedFiles:
    """Files of the log that merges have replaced, as one process cleans them.

    It remembers which merged files it has read back.

    Attributes:
        files: The metadata root.
        root: Its URL.
        uri: The log's table.
        read_bytes: Bytes that it has read in order to judge.
    """

    def __init__(self, files: RootFiles, root: str, uri: str) -> None:
        self.files = files
        self.root = root
        self.uri = uri
        self.read_bytes = 0
        self._sound: set[str] = set()

    def names(self) -> list[str]:
        """Return the names of the log's files that are there, in order. Call it before the table is
        read."""
        return sorted(name for name in self.files.names(self.uri) if is_file_name(name))

    def forget_all_but(self, named: Collection[str]) -> None:
        """Forget which files were read back that the table names no more."""
        self._sound.intersection_update(named)

    def is_due(
        self,
        name: str,
        active: Sequence[LogFile],
        removed_at_ms: Mapping[str, int],
        *,
        before_ms: int,
    ) -> bool:
        """Return whether a file that the table does not name may be deleted: it was removed before
        a moment, or is never to be named.

        `active`: the table's files, in the order of their rows, read after the listing.
        """
        if name in removed_at_ms:
            is_out = removed_at_ms[name] < before_ms
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
            log.info("%s/%s is not named, and stays: %s", self.uri, name, error)
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
            log.warning("what %s/%s was merged from stays: %s", self.uri, file.path, error)
            return False
        return sum(end - base for base, end in extents) == file.size

    def _extents(self, name: str) -> list[tuple[Offset, Offset]]:
        path = f"{self.uri}/{name}"
        content = self.files.read(path, METADATA_FILE_BYTES_MAX)
        self.read_bytes += len(content or b"")
        return batch_extents(content, path)


class MetadataCleaner:
    """Cleans one metadata root, in pieces: files that merges replaced, old commits, old snapshots,
    what killed processes left. A cleaning whose time is over is gone on with by the next."""

    def __init__(self, files: RootFiles, root: str, uri: str, options: StorageOptions) -> None:
        self._files = files
        self._root = root
        self._uri = uri
        self._options = options
        self._replaced = ReplacedFiles(files, root, uri)
        self._step = 0
        self._begins_at = ""  # the name of the file that is judged next
        self._count = 0

    def clean(
        self,
        read_table: Callable[[], list[LogFile]],
        before_ms: int,
        is_over: Callable[[], bool],
    ) -> CleanedFiles:
        """Delete what was replaced before a moment, and what else nobody needs, until `is_over`;
        one piece at least.

        `read_table` returns the log's files, in the order of their rows.
        """
        self._count = self._replaced.read_bytes = 0
        steps: tuple[Callable[[], bool], ...] = (
            lambda: self._clean_replaced(read_table, before_ms, is_over),
            lambda: clean_log(self._files, self._uri, is_over) > 0 and is_over(),
            lambda: self._clean_snapshots(read_table),
            self._clean_unfinished,
        )
        is_left = True
        while is_left:
            number, self._step = self._step, (self._step + 1) % len(steps)
            if steps[number]():  # one that raises keeps none of the others from their turn
                self._step = number
                break
            is_left = self._step > 0
            if is_over():
                break
        return CleanedFiles(self._count, self._replaced.read_bytes, is_left)

    def _clean_replaced(
        self,
        read_table: Callable[[], list[LogFile]],
        before_ms: int,
        is_over: Callable[[], bool],
    ) -> bool:
        """Return whether some are left."""
        begins_at, self._begins_at = self._begins_at, ""
        listed = self._replaced.names()  # before the table is read
        active = read_table()
        named = {file.path for file in active}
        self._replaced.forget_all_but(named)
        removed_at_ms = read_tombstones(self._files, self._uri)
        names = [each for each in listed if each >= begins_at and each not in named]
        for number, name in enumerate(names):
            if number and is_over():
                self._begins_at = name
                return True
            if self._replaced.is_due(name, active, removed_at_ms, before_ms=before_ms):
                # Another cleaner may have been faster.
                self._files.delete_file(f"{self._uri}/{name}")
                self._count += 1
        return False

    def _clean_snapshots(self, read_table: Callable[[], list[LogFile]]) -> bool:
        active = read_table()
        self._count += clean_snapshots(self._files, self._root, raft_log_of(active))
        return False

    def _clean_unfinished(self) -> bool:
        cleaned = clean_metadata_root(self._root, self._uri, self._options)
        self._count += cleaned.count
        if cleaned.error is not None:
            raise KafkaStorageError(cleaned.error)
        return False


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
