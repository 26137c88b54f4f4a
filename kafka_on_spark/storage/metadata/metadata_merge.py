"""Decides which small files of the metadata log to merge, and writes the merged file.

The log stays complete, since it *is* the history; but each file makes every commit slower.
"""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.delta.files.actions import AddFile
from kafka_on_spark.storage.metadata.metadata_files import merge_files
from kafka_on_spark.storage.metadata.metadata_placement import LogFile, add_file
from kafka_on_spark.storage.roots.roots import RootFiles, flush, is_local

MERGED_FILES_MIN: Final = 32
"""Files of one size class to merge at once, at least. Each active file costs every commit about
0.02 ms, and a merge costs one commit."""

MERGED_BELOW_RECORDS: Final = (32, 1024)
"""Size classes of files to merge: first those of single decisions, then the results of that.
Larger files stay: a merge of them would read more than commits gain."""


def files_to_merge(files: Sequence[LogFile]) -> list[LogFile]:
    """Return the adjacent files to merge into one, in order, or none.

    The smallest class comes first. Smaller files between those of a class are merged with them, and
    don't count: otherwise the newest merged file would be written again every few commits.
    """
    least = 0
    for bound in MERGED_BELOW_RECORDS:
        runs: list[list[LogFile]] = [[]]
        for file in files:
            if file.size < bound:
                runs[-1].append(file)
            else:
                runs.append([])
        for run in runs:
            if sum(file.size >= least for file in run) >= MERGED_FILES_MIN:
                return run
        least = bound
    return []


def write_merged(files: RootFiles, uri: str, merged: Sequence[LogFile]) -> AddFile:
    """Write the rows of files as one flushed file, order unchanged; return the action that adds it.

    Raises:
        CorruptLogError: One of them is missing or can't be read.
        KafkaStorageError: The root does not answer.
    """
    paths = [f"{uri}/{file.path}" for file in merged]
    content, count = merge_files(
        [(files.read(path, METADATA_FILE_BYTES_MAX), path) for path in paths]
    )
    path = f"{merged[0].base_offset:020d}-{uuid4().hex}.parquet"
    files.write(f"{uri}/{path}", content)
    if is_local(uri):
        flush([uri])
    return add_file(
        path,
        content.size,
        count,
        merged[0].base_offset,
        merged[-1].time_ms,
        changes_data=False,
    )
