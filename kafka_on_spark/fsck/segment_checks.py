"""What is in the bytes of a replica's segments.

I1: the sums of their records, by which replicas are compared. I15: they are what their names,
headers and statistics say. I27: below what is compacted a key stands once, and no tombstone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import ChainDigest, Offset
from kafka_on_spark.fsck.trace import ContentSum
from kafka_on_spark.log.batch import Border
from kafka_on_spark.log.hashing import key_hashes
from kafka_on_spark.log.merging import BATCH_ROWS, Content, content_of, decode_borders, typed
from kafka_on_spark.log.segments import APPEND_TIME, SEGMENT_SCHEMA, between_deltas, digest_of
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.delta.delta_files import FileEntry
from kafka_on_spark.store.error_translation import parsing
from kafka_on_spark.store.parquet_files import read_parquet

KEYS_AT_ONCE: Final = 2**20
"""Keys that are held together while a log is looked through for keys that stand twice: about 60
MB. A log of more records is read as often as that takes, each time for other keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSegment:
    """What was found in a segment's file.

    Attributes:
        flaw: What is wrong with it, in a sentence; None: nothing, as far as it tells by itself.
        is_missing: That it is not there.
        sums: Of its records between each two borders that were asked for; empty if it has a flaw.
        ends: The borders that a merged segment keeps: offsets, and the chain digests there.
    """

    flaw: str | None = None
    is_missing: bool = False
    sums: tuple[ContentSum, ...] = ()
    ends: tuple[tuple[int, ChainDigest], ...] = ()


def bytes_flaw(content: bytes, file: FileEntry) -> str | None:
    if len(content) != file.size_bytes:
        return f"the segment {file.path} has {len(content)} bytes, the log says {file.size_bytes}"
    if digest_of(content) != file.path.rsplit("-", 1)[-1].removesuffix(".parquet"):
        return f"the bytes of the segment {file.path} have not the digest in its name"
    return None


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
    deltas = table.column("offset_delta").to_numpy()
    if is_merged(file):
        flaw = _merged_flaw(table, deltas, file)
        if flaw is not None or not len(deltas):
            return flaw
    elif not np.array_equal(deltas, np.arange(table.num_rows)):
        return f"the records of the segment {file.path} are not numbered from 0 on"
    elif file.timestamp_min_us == file.timestamp_max_us == file.time_ms * 1000:
        return None  # LogAppendTime: records have the time of the commit, not their own
    span = pc.min_max(table.column("timestamp").cast(pa.int64()))
    if (span["min"].as_py(), span["max"].as_py()) != (file.timestamp_min_us, file.timestamp_max_us):
        return f"the timestamps of the segment {file.path} are not what its statistics say"
    return None


def _merged_flaw(table: pa.Table, deltas: npt.NDArray[np.generic], file: FileEntry) -> str | None:
    """Return what is wrong with where a merged segment's records are, or with what they are."""
    base_offset, end_offset = _number(file, "base_offset"), _number(file, "end_offset")
    is_inside = not len(deltas) or 0 <= deltas[0] <= deltas[-1] < end_offset - base_offset
    if not is_inside or not (np.diff(deltas) > 0).all():
        return f"the records of the segment {file.path} do not lie in the offsets that it covers"
    if content_of(table, base_offset).digest != _number(file, "content_digest"):
        return f"the records of the segment {file.path} have not the content digest in its header"
    return None


def is_merged(file: FileEntry) -> bool:
    return file.values.get("content_digest") is not None


def _number(file: FileEntry, name: str) -> int:
    return int(file.values.get(name) or 0)


def _ends(content: bytes, file: FileEntry) -> tuple[tuple[int, ChainDigest], ...]:
    if not is_merged(file):
        return ()
    base_offset, end_offset = _number(file, "base_offset"), _number(file, "end_offset")
    own = Border(Offset(end_offset), ChainDigest(file.values.get("chain_digest") or ""))
    return decode_borders(content, file.path, Offset(base_offset), own)


def _sums(table: pa.Table, file: FileEntry, borders: Sequence[int]) -> tuple[ContentSum, ...]:
    """Return what a segment holds between each two borders."""
    base_offset = _number(file, "base_offset")
    has_append_time = _number(file, "timestamp_type") == APPEND_TIME and not is_merged(file)
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
) -> Iterator[tuple[int, str]]:
    """Yield what in sound segments shows that they are not compacted, in memory that is bounded:
    the offset of a record that should not be there, and why. Which records are missing can't be
    seen in what is left of a log."""
    below = [file for file in files if _number(file, "base_offset") < compacted_below]
    count = sum(file.record_count or 0 for file in below)
    parts = -(-count // KEYS_AT_ONCE)
    for part in range(parts):
        columns = [_keys(read(file), file, part, parts, compacted_below) for file in below]
        yield from _key_flaws(columns, compacted_below, tombstones_below)


Columns = tuple[npt.NDArray[np.generic], ...]


def _keys(
    content: bytes,
    file: FileEntry,
    part: int,
    parts: int,
    compacted_below: Offset,
) -> Columns:
    """Return, of one part of the keys, their hashes in two halves, the offsets, whether there is a
    key, and whether it is a tombstone."""
    table = read_parquet(content, file.path, columns=("offset_delta", "key", "value"))
    deltas = table.column("offset_delta").to_numpy().astype(np.int64)
    offsets = deltas + _number(file, "base_offset")
    keys, values = table.column("key").combine_chunks(), table.column("value")
    high, low = key_hashes(keys)
    has_key = keys.is_valid().to_numpy(zero_copy_only=False)
    wanted = (high % np.uint64(parts) == part) & (offsets < compacted_below)
    columns = (high, low, offsets, has_key, values.is_null().to_numpy())
    return tuple(each[wanted] for each in columns)


def _key_flaws(
    files: Sequence[Columns], compacted_below: Offset, tombstones_below: Offset
) -> Iterator[tuple[int, str]]:
    """Yield the records that are wrong alone, or by the one before them of the same key."""
    high, low, offsets, has_key, is_tombstone = map(np.concatenate, zip(*files, strict=True))
    order = np.lexsort((offsets, low, high))
    is_same = (np.diff(high[order]) == 0) & (np.diff(low[order]) == 0)
    is_again = is_same & has_key[order[1:]] & has_key[order[:-1]]
    before = np.full(len(order), -1)
    before[order[1:][is_again]] = offsets[order[:-1][is_again]]
    is_kept = is_tombstone & (offsets < tombstones_below)
    for place in np.flatnonzero(~has_key | is_kept | (before >= 0)):
        offset = int(offsets[place])
        if not has_key[place]:
            yield offset, f"the record at {offset}, below {compacted_below}, has no key"
            continue
        if before[place] >= 0:
            sentence = f"stands at {before[place]} too, below {compacted_below}"
            yield offset, f"the key of the record at {offset} {sentence}"
        if is_kept[place]:
            yield offset, f"a tombstone is kept at {offset}, below {tombstones_below}"
