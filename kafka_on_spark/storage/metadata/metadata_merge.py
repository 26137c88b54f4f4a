"""Decides which small files of the metadata log to merge, and writes the merged file.

The log stays complete, since it *is* the history; but each file makes every checkpoint longer, and
every opening of the table. A row is written again at most once a size class.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, takewhile
from typing import Final
from uuid import uuid4

from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.raft.log.runs import runs_of
from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata.metadata_files import merge_files
from kafka_on_spark.storage.metadata.metadata_placement import LogFile, new_file
from kafka_on_spark.storage.roots.roots import RootFiles, flush, is_local

MERGED_FILES_MIN: Final = 32
"""Files of one size class to merge at once, at least. Each active file costs every commit about
0.02 ms, and a merge costs one commit."""

MERGED_BELOW_RECORDS: Final = (32, 1024, 1 << 15, 1 << 20, 1 << 21)
"""Size classes of files to merge: first those of single decisions, then the results of that, and so
on, up to what one file may hold. A log has at most about 130 files of them, and of what no class
takes one for each three million records: 3.6 days of 10 commits a second."""

TAIL_CLASSES: Final = 2
"""The first classes, which are merged wherever they lie. Files of a larger class are merged only
below the newest snapshot: whoever opens the cluster reads the files from that on, and would read
many rows that the snapshot has."""

LARGE_FILES_MIN: Final = 4
"""The same of the last class: 32 of them would be more than one file may hold."""

MERGED_RECORDS_MAX: Final = 1 << 22
"""Records of a merged file, about."""

MERGED_BYTES_MAX: Final = 1 << 28
"""Bytes of a merged file, about: a process that merges or reads it holds them, and a row group."""


def files_to_merge(
    files: Sequence[LogFile], snapshot_end: Callable[[], int] = lambda: 0
) -> list[LogFile]:
    """Return the adjacent files to merge into one, in order, or none.

    The smallest class comes first. Smaller files between those of a class are merged with them, and
    don't count: otherwise the newest merged file would be written again every few commits.
    `snapshot_end` says where the newest snapshot ends; it is asked only if that matters.
    """
    least = 0
    for number, bound in enumerate(MERGED_BELOW_RECORDS):
        is_last = number == len(MERGED_BELOW_RECORDS) - 1
        enough = min(MERGED_FILES_MIN, LARGE_FILES_MIN) if is_last else MERGED_FILES_MIN
        run = _run_to_merge(files, least, bound, enough)
        if run and number >= TAIL_CLASSES:
            end = snapshot_end()
            below = [each for each in files if each.end_offset <= end]
            run = _run_to_merge(below, least, bound, enough)
        if run:
            return run
        least = bound
    return []


def _run_to_merge(files: Sequence[LogFile], least: int, bound: int, enough: int) -> list[LogFile]:
    """Return of the first run of files below a class's bound that has enough of that class what one
    file may hold."""
    runs: list[list[LogFile]] = [[]]
    for file in files:
        if file.size < bound and file.size_bytes < MERGED_BYTES_MAX // 2:
            runs[-1].append(file)
        else:
            runs.append([])
    for run in runs:
        if sum(file.size >= least for file in run) >= enough:
            return _bounded(run)
    return []


def _bounded(run: list[LogFile]) -> list[LogFile]:
    """Return the first files of a run, as many as one file may hold; two at least."""
    records = accumulate(file.size for file in run)
    sizes = accumulate(file.size_bytes for file in run)
    fits = zip(records, sizes, strict=True)
    count = sum(end <= MERGED_RECORDS_MAX and size <= MERGED_BYTES_MAX for end, size in fits)
    return run[: max(count, 2)]


def files_to_expire(
    files: Sequence[LogFile], start: int, end: int, before_ms: int
) -> list[LogFile]:
    """Return the files whose records are to be given up, in order: the oldest ones, as many as one
    file may hold, that end after `start`, where the history begins, and at `end` or before, and
    whose newest batch is older than `before_ms`."""
    old = takewhile(lambda file: file.end_offset <= end and file.time_ms < before_ms, files)
    return _bounded([file for file in old if file.end_offset > start])


def write_merged(
    files: RootFiles, uri: str, merged: Sequence[LogFile], *, expires: bool = False
) -> LogFile:
    """Write the rows of files as one flushed file, order unchanged; return it. `expires`: without
    what their records say.

    Raises:
        CorruptLogError: One of them is missing or can't be read.
        KafkaStorageError: The root does not answer.
    """
    paths = [f"{uri}/{file.path}" for file in merged]
    content, count = merge_files(
        ((files.read(path, METADATA_FILE_BYTES_MAX), path) for path in paths), expires=expires
    )
    path = f"{merged[0].base_offset:020d}-{uuid4().hex}.parquet"
    files.write(f"{uri}/{path}", content)
    if is_local(uri):
        flush([uri])
    if count != merged[-1].end_offset - merged[0].base_offset:
        raise CorruptLogError("files of the metadata log have other rows than the table says")
    runs = runs_of(batch for file in merged for batch in file.batches)
    return new_file(path, content.size, runs, merged[-1].time_ms)
