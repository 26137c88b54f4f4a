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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.delta.log_cleaning import clean_log
from kafka_on_spark.storage.delta.tombstones import read_tombstones
from kafka_on_spark.storage.metadata.metadata_files import decode_file
from kafka_on_spark.storage.metadata.metadata_placement import LogFile, is_file_name
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
    """

    def __init__(self, files: RootFiles, root: str, uri: str) -> None:
        self.files = files
        self.root = root
        self.uri = uri
        self._sound: set[str] = set()

    def names(self) -> list[str]:
        """Return the names of the log's files that are there. Call it before the table is read."""
        return [name for name in self.files.names(self.uri) if is_file_name(name)]

    def due(
        self,
        listed: Iterable[str],
        active: Sequence[LogFile],
        removed_at_ms: Mapping[str, int],
        *,
        before_ms: int,
    ) -> list[str]:
        """Return which of `listed` may be deleted: removed before a moment, or never to be named.

        `active`: the table's files, in the order of their rows, read after the listing.
        """
        named = {file.path for file in active}
        return [
            name
            for name in listed
            if name not in named
            and (
                removed_at_ms[name] < before_ms
                if name in removed_at_ms
                else self._is_settled(name, active)
            )
            and self._is_kept_elsewhere(name, active)
        ]

    def _is_settled(self, name: str, active: Sequence[LogFile]) -> bool:
        """Return whether no commit will name a file any more that the table neither names nor tells
        to have removed.

        A file with one batch is an append's. A merge's has several, and goes if one active file has
        all of their rows: then what it was merged from is there no longer.
        """
        path = f"{self.uri}/{name}"
        try:
            batches = decode_file(self.files.read(path, METADATA_FILE_BYTES_MAX), path)
        except KafkaOnSparkError as error:
            log.info("%s is not named, and stays: %s", path, error)
            return False
        if not batches or not active:
            return False
        base_offset, end_offset = batches[0].base_offset, batches[-1].end_offset
        if len(batches) == 1:
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
        path = f"{self.uri}/{file.path}"
        try:
            batches = decode_file(self.files.read(path, METADATA_FILE_BYTES_MAX), path)
        except KafkaOnSparkError as error:
            log.warning("what %s was merged from stays: %s", path, error)
            return False
        return sum(len(batch.records) for batch in batches) == file.size

    def delete(self, names: Iterable[str]) -> None:
        """Delete files; one that is gone was deleted by another cleaner."""
        for name in names:
            self.files.delete(f"{self.uri}/{name}")


def clean_metadata(
    replaced: ReplacedFiles,
    read_table: Callable[[], tuple[int, list[LogFile]]],
    options: StorageOptions,
    before_ms: int,
) -> int:
    """Delete files that merges replaced before a moment, old snapshots and commits, and what killed
    processes left; return how many files, old commits apart.

    `read_table` returns the log's end and its files, in the order of their rows.
    """
    files, uri = replaced.files, replaced.uri
    listed = replaced.names()  # before the table is read
    end, active = read_table()
    due = replaced.due(listed, active, read_tombstones(files, uri), before_ms=before_ms)
    replaced.delete(due)
    clean_log(files, uri)
    left = clean_metadata_root(replaced.root, uri, options)
    return len(due) + left + clean_snapshots(files, replaced.root, end)


def clean_snapshots(files: RootFiles, metadata_root: str, log_end: int) -> int:
    """Delete the snapshots that are not kept; return how many.

    One that ends above the log's end says nothing of which others are needed, and stays: it is of
    another log, or holds what a log that was rolled back has lost.
    """
    folder = f"{metadata_root}/snapshots"
    ends = {
        name: end
        for name in files.names(folder)
        if (end := end_in_name(name)) is not None and end <= log_end
    }
    kept = kept_snapshots(ends.values())
    due = [name for name, end in ends.items() if end not in kept]
    for name in due:
        files.delete(f"{folder}/{name}")
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
