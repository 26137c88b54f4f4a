"""Small files of the metadata log become one: which, and how it is written.

The log is kept whole, it *is* the history; but each file makes every commit slower.
"""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from deltalake.transaction import AddAction

from kafka_on_spark.storage.limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata_files import merge_files
from kafka_on_spark.storage.metadata_placement import LogFile, add_action
from kafka_on_spark.storage.roots import RootFiles, flush, is_local

MERGED_FILES_MIN: Final = 32
"""Files of a size that are merged at once. Each active file costs every commit about 0.02 ms, and a
merge is a commit more."""

MERGED_BELOW_RECORDS: Final = (32, 1024)
"""Sizes by which files are merged: first those of single decisions, then what became of these.
Larger ones stay: to merge them would read more than commits gain."""


def files_to_merge(files: Sequence[LogFile]) -> list[LogFile]:
    """Return the files that one should take the place of, side by side and in order, or none.

    Small ones first. Smaller ones between those of a size are taken along, and don't count: else
    the newest merged file would be written anew with every few commits.
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


def write_merged(files: RootFiles, uri: str, merged: Sequence[LogFile]) -> AddAction:
    """Write the rows of files as one, order unchanged and flushed; return what adds it.

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
    return add_action(
        path,
        content.size,
        count,
        merged[0].base_offset,
        merged[-1].time_ms,
        data_change=False,
    )
