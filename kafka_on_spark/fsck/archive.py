"""Reads for audits: the steps of tables' logs, the bytes of segments, the files on the roots.

Every call reads its files again and caches nothing: what a process remembers of a table does not
count here. Never writes.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError, ReplicaLostError
from kafka_on_spark.base.ids import ChainDigest, Offset
from kafka_on_spark.fsck.trace import CheckedSegment, ContentSum
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Border, is_segment_name
from kafka_on_spark.log.compaction import CompactionFlaw, KeyedRecord
from kafka_on_spark.log.compaction import compaction_flaws as flaws_of
from kafka_on_spark.log.hashing import key_hashes
from kafka_on_spark.log.merged_files import BATCH_ROWS, Content, content_of, decode_borders, typed
from kafka_on_spark.log.producer_files import read_producers
from kafka_on_spark.log.producer_state import ProducersFile
from kafka_on_spark.log.replica_folders import check_no_link, replica_folder
from kafka_on_spark.log.replica_headers import APPEND_TIME
from kafka_on_spark.log.segments import SEGMENT_SCHEMA, between_deltas, digest_of
from kafka_on_spark.log.state import ProducerEntries
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.delta.history import FileEntry, TableStep
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.error_translation import as_storage_errors, parsing
from kafka_on_spark.store.file_limits import PRODUCERS_BYTES_MAX, SEGMENT_BYTES_MAX
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.root_identity import check_directory
from kafka_on_spark.store.roots import RootFiles, StorageOptions

KEYS_AT_ONCE: Final = 2**20
"""Keys that are held together while a log is looked through for keys that stand twice: about 60
MB. A log of more records is read as often as that takes, each time for other keys."""

FLAWS_AT_ONCE: Final = 10_000
"""Records that should not be there and that are looked at together, each with the one that shows
it. All are looked at, in turn: as many are Python's objects at a time."""


def check_content(content: bytes, file: FileEntry, borders: Sequence[int]) -> CheckedSegment:
    try:
        with parsing(f"the segment {file.path}"):
            table = read_parquet(content, file.path, verifies_pages=True)
            flaw = _content_flaw(table, file)
            if flaw is not None:
                return CheckedSegment(flaw=flaw)
            return CheckedSegment(sums=_sums(table, file, borders), ends=_ends(content, file))
    except CorruptLogError as error:
        return CheckedSegment(flaw=f"the segment {file.path}: {error.message}")


def _content_flaw(table: pa.Table, file: FileEntry) -> str | None:
    if table.schema.names != SEGMENT_SCHEMA.names:
        return f"the segment {file.path} has the columns {', '.join(table.schema.names)}"
    if table.num_rows != file.record_count:
        return (
            f"the segment {file.path} has {table.num_rows} records, its statistics say"
            f" {file.record_count}"
        )
    if _is_merged(file):
        return _merged_flaw(table, file)
    if table.column("offset_delta").to_pylist() != list(range(table.num_rows)):
        return f"the records of the segment {file.path} are not numbered from 0 on"
    if file.timestamp_min_us == file.timestamp_max_us == file.time_ms * 1000:
        return None  # LogAppendTime: records have the time of the commit, not their own
    return _times_flaw(table, file)


def _is_merged(file: FileEntry) -> bool:
    return file.values.get("content_digest") is not None


def _number(file: FileEntry, name: str) -> int:
    return int(file.values.get(name) or 0)


def _merged_flaw(table: pa.Table, file: FileEntry) -> str | None:
    """Return what is wrong with the records of a merged segment: where they are, and what."""
    base_offset, end_offset = _number(file, "base_offset"), _number(file, "end_offset")
    deltas = table.column("offset_delta").to_numpy()
    is_inside = not len(deltas) or 0 <= deltas[0] <= deltas[-1] < end_offset - base_offset
    if not is_inside or not (np.diff(deltas) > 0).all():
        return f"the records of the segment {file.path} do not lie in the offsets that it covers"
    if content_of(table, base_offset).digest != _number(file, "content_digest"):
        return f"the records of the segment {file.path} have not the content digest in its header"
    return _times_flaw(table, file) if len(deltas) else None


def _times_flaw(table: pa.Table, file: FileEntry) -> str | None:
    span = pc.min_max(table.column("timestamp").cast(pa.int64()))
    found = (span["min"].as_py(), span["max"].as_py())
    if found != (file.timestamp_min_us, file.timestamp_max_us):
        return f"the timestamps of the segment {file.path} are not what its statistics say"
    return None


def _ends(content: bytes, file: FileEntry) -> tuple[tuple[int, ChainDigest], ...]:
    if not _is_merged(file):
        return ()
    base_offset, end_offset = _number(file, "base_offset"), _number(file, "end_offset")
    own = Border(Offset(end_offset), ChainDigest(file.values.get("chain_digest") or ""))
    return decode_borders(content, file.path, Offset(base_offset), own)


def _sums(table: pa.Table, file: FileEntry, borders: Sequence[int]) -> tuple[ContentSum, ...]:
    """Return what a segment holds between each two borders."""
    base_offset = _number(file, "base_offset")
    has_append_time = _number(file, "timestamp_type") == APPEND_TIME and not _is_merged(file)
    common_us = file.time_ms * 1000 if has_append_time else None
    sums = [Content()] * (len(borders) - 1)
    for records in table.to_batches(BATCH_ROWS):
        whole = typed(records, common_us)
        for place, (first, end) in enumerate(pairwise(borders)):
            wanted = between_deltas(whole, first - base_offset, end - base_offset)
            if wanted.num_rows:
                sums[place] = sums[place].plus(wanted, base_offset)
    return tuple(ContentSum(each.record_count, each.digest) for each in sums)


def compaction_flaws(
    files: Sequence[FileEntry],
    read: Callable[[FileEntry], bytes],
    *,
    compacted_below: Offset,
    tombstones_below: Offset,
) -> Iterator[CompactionFlaw]:
    """Yield what in sound segments shows that they are not compacted, in memory that is bounded."""
    below = [file for file in files if _number(file, "base_offset") < compacted_below]
    if not below:
        return
    count = sum(file.record_count or 0 for file in below)
    parts = max(1, -(-count // KEYS_AT_ONCE))
    for part in range(parts):
        keys = _Keys(part, parts, tombstones_below)
        for file in below:
            table = read_parquet(read(file), file.path, columns=("offset_delta", "key", "value"))
            keys.add(table, _number(file, "base_offset"), compacted_below)
        for told, suspects in keys.suspects():
            for flaw in flaws_of(
                suspects, compacted_below=compacted_below, tombstones_below=tombstones_below
            ):
                if flaw.offset in told:
                    yield flaw


class _Keys:
    """The keys of one part of a log's records, by their hashes."""

    def __init__(self, part: int, parts: int, tombstones_below: Offset) -> None:
        self._part = part
        self._parts = parts
        self._tombstones_below = tombstones_below
        self._columns: list[tuple[npt.NDArray[np.generic], ...]] = []

    def add(self, table: pa.Table, base_offset: int, compacted_below: Offset) -> None:
        deltas = table.column("offset_delta").to_numpy().astype(np.int64)
        offsets = deltas + base_offset
        keys, values = table.column("key").combine_chunks(), table.column("value")
        high, low = key_hashes(keys)
        wanted = (high % np.uint64(self._parts) == self._part) & (offsets < compacted_below)
        has_key = keys.is_valid().to_numpy(zero_copy_only=False)
        is_tombstone = values.is_null().to_numpy()
        columns = (high, low, offsets, has_key, is_tombstone)
        self._columns.append(tuple(each[wanted] for each in columns))

    def suspects(self) -> Iterator[tuple[range, list[KeyedRecord]]]:
        """Yield, some at a time, the records that can't be right alone or behind others: between
        which offsets they lie, and they with what shows it, in the order of offsets.

        A key's record is wrong by the one before it of the same key, which may lie far below: that
        one comes with it, each time.
        """
        high, low, offsets, has_key, is_tombstone = map(
            np.concatenate, zip(*self._columns, strict=True)
        )
        order = np.lexsort((offsets, low, high))
        is_again = (np.diff(high[order]) == 0) & (np.diff(low[order]) == 0) & has_key[order[1:]]
        before = np.full(len(order), -1)
        before[order[1:][is_again]] = order[:-1][is_again]
        is_wrong = ~has_key | (is_tombstone & (offsets < self._tombstones_below)) | (before >= 0)
        wrong = np.flatnonzero(is_wrong)
        wrong = wrong[np.argsort(offsets[wrong])]
        for first in range(0, len(wrong), FLAWS_AT_ONCE):
            some = wrong[first : first + FLAWS_AT_ONCE]
            places = np.union1d(some, before[some][before[some] >= 0])
            places = places[np.argsort(offsets[places])]
            yield (
                range(int(offsets[some[0]]), int(offsets[some[-1]]) + 1),
                [
                    KeyedRecord(
                        offset=Offset(int(offsets[place])),
                        key=high[place].tobytes() + low[place].tobytes()
                        if has_key[place]
                        else None,
                        is_tombstone=bool(is_tombstone[place]),
                    )
                    for place in places
                ],
            )


class ReplicaArchive:
    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def steps(self, address: ReplicaAddress, *, is_deep: bool) -> Iterator[TableStep]:
        """Yield the steps of a replica's table, oldest first; deep: with every checkpoint.

        Raises:
            ReplicaLostError: There is no table.
            KafkaStorageError: The root is not the disk of the address, or does not answer.
        """
        check_directory(address.root, address.directory_id, self._options)
        check_no_link(address)
        files, folder = RootFiles(address.root, self._options), replica_folder(address)
        try:
            with as_storage_errors(f"read the table at {folder}", self._options):
                yield from table_steps(files, folder, has_all_checkpoints=is_deep)
        except ReplicaLostError:
            check_directory(address.root, address.directory_id, self._options)
            raise
        # What was missing while the disk was away is not missing.
        check_directory(address.root, address.directory_id, self._options)

    def producers(self, address: ReplicaAddress, file: ProducersFile) -> ProducerEntries:
        """Return the entries in the producer-state file that a replica's commits name.

        Raises:
            CorruptLogError: It is missing or damaged, or another one.
            KafkaStorageError: The root does not answer.
        """
        files, folder = RootFiles(address.root, self._options), replica_folder(address)
        with as_storage_errors(f"read the producer state at {folder}", self._options):
            return read_producers(
                lambda name: files.read(f"{folder}/{name}", PRODUCERS_BYTES_MAX),
                address.replica_uuid,
                file,
            )

    def check_segment(
        self, address: ReplicaAddress, file: FileEntry, borders: Sequence[int]
    ) -> CheckedSegment:
        """Return what is wrong with a segment's bytes, and what it holds between `borders`.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        content = self._content(address, file)
        if isinstance(content, CheckedSegment):
            return content
        return check_content(content, file, borders)

    def compaction_flaws(
        self,
        address: ReplicaAddress,
        files: Sequence[FileEntry],
        *,
        compacted_below: Offset,
        tombstones_below: Offset,
    ) -> Iterator[CompactionFlaw]:
        """Yield what in segments shows that they are not compacted, in memory that is bounded.

        Raises:
            KafkaStorageError: The root does not answer.
        """

        def read(file: FileEntry) -> bytes:
            content = self._content(address, file)
            if isinstance(content, CheckedSegment):
                raise KafkaStorageError(f"{content.flaw}, since it was read first: try again")
            return content

        yield from compaction_flaws(
            files, read, compacted_below=compacted_below, tombstones_below=tombstones_below
        )

    def _content(self, address: ReplicaAddress, file: FileEntry) -> bytes | CheckedSegment:
        """Return a segment's bytes, whose digest is right; or what is wrong."""
        if not is_segment_name(file.path):
            return CheckedSegment(
                flaw=f"the file {file.path} is no segment by its name, and was not read"
            )
        path = f"{replica_folder(address)}/{file.path}"
        try:
            with as_storage_errors(f"read {path}", self._options):
                content = RootFiles(address.root, self._options).read(
                    path, min(file.size_bytes, SEGMENT_BYTES_MAX)
                )
        except UnsafeFileError as error:
            return CheckedSegment(flaw=f"the segment {file.path}: {error.message}")
        if content is None:
            return CheckedSegment(flaw=f"the segment {file.path} is missing", is_missing=True)
        flaw = _bytes_flaw(content, file)
        return content if flaw is None else CheckedSegment(flaw=flaw)


def _bytes_flaw(content: bytes, file: FileEntry) -> str | None:
    if len(content) != file.size_bytes:
        return f"the segment {file.path} has {len(content)} bytes, the log says {file.size_bytes}"
    if digest_of(content) != file.path.rsplit("-", 1)[-1].removesuffix(".parquet"):
        return f"the bytes of the segment {file.path} have not the digest in its name"
    return None
