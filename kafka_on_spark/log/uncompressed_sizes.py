"""Says which parts of a log fit into one file once they are uncompressed, as a reader has them.

Headers tell how large files are on the root, and only their footers how large they are in memory.
Apart from `merged_files`, which reads files whole: this reads their ends alone, and so it can be
asked before anything is read, written or paid for.

What is too large stays where it is, and each visit of upkeep comes upon it again. So it is kept in
mind, in a module global: visits have no object in common.
"""

import threading
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Final

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.log import merged_files
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.borders import BORDER_BYTES
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.replica_folders import replica_folder
from kafka_on_spark.log.segments import bytes_max_of
from kafka_on_spark.store.parquet_files import read_footer, uncompressed_bytes
from kafka_on_spark.store.roots import RootFiles, StorageOptions

RATIO_MAX: Final = 2**15
"""How many bytes zstd makes of one at most: a block of 128 KiB takes 4 at least. So the footers of
small files need not be read."""

END_BYTES: Final = 2**16
"""What is read of a file's end at first: most footers are smaller."""

FOUND_MAX: Final = 4096
"""Files that are kept in mind; those that were found first go first."""

_LENGTH_BYTES: Final = 8
"""A Parquet file ends with the length of its footer, as 32 bits, and a mark of four bytes."""


def too_large_to_merge(
    address: ReplicaAddress, parts: Iterable[LogPart], options: StorageOptions
) -> frozenset[Segment]:
    """Return the files of those parts that have more than half of what a merged segment may have,
    of bytes or of borders.

    Any two others fit into one file. A part that can't be read is not among them: a merge finds out
    what is wrong with it. If this process has found some of them before, these are returned, and
    nothing is read: without them the others may be no merge.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    parts = list(parts)
    known = _found.among(chain.from_iterable(part.segments for part in parts))
    if known:
        return known
    large: set[Segment] = set()
    for part in parts:
        least = merged_files.UNCOMPRESSED_MAX // 2
        if part.size_bytes * RATIO_MAX > least and _size_of(address, part, options) > least:
            large.update(part.segments)
    _found.add(large)
    return frozenset(large)


class _Found:
    """Files that were found too large, whose bytes their names tell. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segments: dict[Segment, None] = {}

    def among(self, segments: Iterable[Segment]) -> frozenset[Segment]:
        """Return those of the segments that were found."""
        with self._lock:
            return frozenset(each for each in segments if each in self._segments)

    def add(self, segments: Collection[Segment]) -> None:
        """Keep some in mind, and forget the first if there are too many."""
        with self._lock:
            for each in segments:
                self._segments[each] = None
            while len(self._segments) > FOUND_MAX:
                del self._segments[next(iter(self._segments))]


_found: Final = _Found()


def fitting_into_one(
    address: ReplicaAddress, parts: Sequence[LogPart], options: StorageOptions
) -> int:
    """Return how many of those parts, from the first on, one merged segment may hold; one at least.
    A part that can't be read counts for nothing: whoever reads it finds out what is wrong with it.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    most = merged_files.UNCOMPRESSED_MAX
    if len(parts) == 1 or sum(part.size_bytes for part in parts) * RATIO_MAX <= most:
        return len(parts)
    size = 0
    for count, part in enumerate(parts):
        size += _size_of(address, part, options)
        if count and size > most:
            return count
    return len(parts)


def _size_of(address: ReplicaAddress, part: LogPart, options: StorageOptions) -> int:
    try:
        return sum(_size_in(address, segment, options) for segment in part.segments)
    except CorruptLogError:
        return 0


def _size_in(address: ReplicaAddress, segment: Segment, options: StorageOptions) -> int:
    """Return how many bytes a segment has uncompressed, as its file's footer says.

    One with too many borders for a merge counts as full. Its footer has little else, and is not
    read.
    """
    files, size_bytes = RootFiles(address.root, options), bytes_max_of(segment)
    path = f"{replica_folder(address)}/{segment.file_name}"
    end = files.read_end(path, size_bytes, min(END_BYTES, size_bytes)) or b""
    footer_bytes = int.from_bytes(end[-_LENGTH_BYTES:-4], "little") + _LENGTH_BYTES
    half_bytes = merged_files.BORDERS_MAX // 2 * BORDER_BYTES
    if half_bytes < footer_bytes <= size_bytes:
        return merged_files.UNCOMPRESSED_MAX
    if len(end) < footer_bytes <= size_bytes:
        end = files.read_end(path, size_bytes, footer_bytes) or b""
    return uncompressed_bytes(read_footer(end, path))
