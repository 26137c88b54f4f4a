"""Adapts files on a root to the Compactor port: reads keys, and rewrites neighbouring segments."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.borders import read_borders
from kafka_on_spark.log.hashing import key_hashes
from kafka_on_spark.log.merged_files import (
    BATCH_ROWS,
    COLUMNS,
    encode_merged,
    moved,
    put_merged,
    typed,
)
from kafka_on_spark.log.merged_segment import Border, LogPart, MergedSegment
from kafka_on_spark.log.replicas import LastOffsets
from kafka_on_spark.log.segments import segment_batches
from kafka_on_spark.log.uncompressed_sizes import fitting_into_one
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.roots import StorageOptions

_KEYS: Final = ("offset_delta", "key")
_KEYS_AND_VALUES: Final = ("offset_delta", "key", "value")

NOT_THERE: Final = -1

Offsets = npt.NDArray[np.int64]


class KeyMap:
    """Last offsets by key. Records are added in any order, then it is asked."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any, Offsets]] = []
        self._high = np.zeros(0, np.uint64)
        self._low = np.zeros(0, np.uint64)
        self._offsets = np.zeros(0, np.int64)

    def __len__(self) -> int:
        self._sort()
        return len(self._offsets)

    def add(self, keys: pa.Array, offsets: Offsets) -> None:
        """Add records; those without a key are left out."""
        if len(keys) == 0:
            return
        high, low = key_hashes(keys)
        if keys.null_count:
            has_key = keys.is_valid().to_numpy(zero_copy_only=False)
            high, low, offsets = high[has_key], low[has_key], offsets[has_key]
        self._parts.append((high.copy(), low.copy(), offsets.astype(np.int64)))

    def last_offsets(self, keys: pa.Array) -> Offsets:
        """Return the last offset of each key; NOT_THERE where it has none, or is null."""
        self._sort()
        high, low = key_hashes(keys)
        found = np.full(len(keys), NOT_THERE, np.int64)
        places = np.searchsorted(self._high, high)
        left = np.arange(len(keys))
        while len(left):  # again only for keys whose first halves are those of another
            left = left[places[left] < len(self._high)]
            left = left[self._high[places[left]] == high[left]]
            is_same = self._low[places[left]] == low[left]
            hits = left[is_same]
            found[hits] = self._offsets[places[hits]]
            left = left[~is_same]
            places[left] += 1
        if keys.null_count:
            found[keys.is_null().to_numpy(zero_copy_only=False)] = NOT_THERE
        return found

    def _sort(self) -> None:
        """Sort what was added since the last time, and keep the last offset of each key."""
        if not self._parts:
            return
        self._parts.append((self._high, self._low, self._offsets))
        high = np.concatenate([part[0] for part in self._parts])
        low = np.concatenate([part[1] for part in self._parts])
        offsets = np.concatenate([part[2] for part in self._parts])
        self._parts = []
        order = np.lexsort((offsets, low, high))
        high, low = high[order], low[order]
        is_last = np.ones(len(high), np.bool_)
        is_last[:-1] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        self._high, self._low = high[is_last], low[is_last]
        del high, low
        self._offsets = offsets[order[is_last]]


class FileCompactor:
    """A Compactor on a replica's folder."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def fitting(self, address: ReplicaAddress, parts: Sequence[LogPart]) -> int:
        """Return how many of `parts`, from the first on, one file may hold; one at least."""
        return within(address.root, partial(fitting_into_one, address, parts, self._options))

    def last_offsets(
        self,
        address: ReplicaAddress,
        parts: Iterable[LogPart],
        *,
        start_offset: Offset,
        end_offset: Offset,
    ) -> KeyMap:
        """Return the last offset of each key in ``[start_offset, end_offset)``."""
        keys = KeyMap()
        for part in parts:
            for _, records, offsets in self._read(address, part, _KEYS):
                wanted = (offsets >= start_offset) & (offsets < end_offset)
                column = records.column("key")
                if not wanted.all():
                    column, offsets = column.filter(pa.array(wanted)), offsets[wanted]
                keys.add(column, offsets)
        return keys

    def without_stale(
        self,
        address: ReplicaAddress,
        parts: Sequence[LogPart],
        last: LastOffsets,
        *,
        compacted_below: Offset,
        tombstones_below: Offset,
        leader_epoch: LeaderEpoch,
    ) -> MergedSegment | None:
        """Write `parts` as one segment without the records that go; None: none goes."""
        assert isinstance(last, KeyMap), "as last_offsets returns it"
        kept = partial(
            _kept, last=last, compacted_below=compacted_below, tombstones_below=tombstones_below
        )
        if not any(self._loses(address, part, kept, tombstones_below) for part in parts):
            return None
        base_offset = parts[0].base_offset
        borders = self._borders(address, parts[-1], compacted_below)
        file = encode_merged(self._remaining(address, parts, kept), base_offset, borders)
        end = Border(parts[-1].end_offset, parts[-1].chain_digest)
        merged = file.header(parts, base_offset, end, leader_epoch)
        within(address.root, lambda: put_merged(address, merged, file, self._options))
        return merged

    def _loses(
        self, address: ReplicaAddress, part: LogPart, kept: Any, tombstones_below: Offset
    ) -> bool:
        columns = _KEYS_AND_VALUES if part.base_offset < tombstones_below else _KEYS
        batches = self._read(address, part, columns)
        return any(not kept(records, offsets).all() for _, records, offsets in batches)

    def _remaining(
        self, address: ReplicaAddress, parts: Sequence[LogPart], kept: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records that stay; their offset_delta counts from the first part's base."""
        for part in parts:
            for base_offset, records, offsets in self._read(address, part, COLUMNS):
                mask = kept(records, offsets)
                if mask.any():
                    stays = typed(records.filter(pa.array(mask)), part.common_timestamp_us)
                    yield moved(stays, base_offset - parts[0].base_offset)

    def _read(
        self, address: ReplicaAddress, part: LogPart, columns: Sequence[str]
    ) -> Iterator[tuple[Offset, pa.RecordBatch, npt.NDArray[np.int64]]]:
        """Yield a part's records, checked, with their file's base offset and their offsets."""
        for segment, base_offset, _ in part.ranges():
            for records in segment_batches(address, segment, self._options, columns, BATCH_ROWS):
                deltas = records.column("offset_delta").to_numpy(zero_copy_only=False)
                yield base_offset, records, base_offset + deltas.astype(np.int64)

    def _borders(
        self, address: ReplicaAddress, last: LogPart, compacted_below: Offset
    ) -> list[Border]:
        """Return the borders that remain: those from which on all records stay."""
        if last.end_offset <= compacted_below:
            return []
        if isinstance(last, Batch):
            ends = zip(last.ranges(), last.chain_digests, strict=True)
            found = [Border(end_offset, digest) for (_, _, end_offset), digest in ends]
        else:
            found = list(read_borders(address, last, self._options))
        return [each for each in found if each.offset >= compacted_below]


def _kept(
    records: pa.RecordBatch,
    offsets: npt.NDArray[np.int64],
    *,
    last: KeyMap,
    compacted_below: Offset,
    tombstones_below: Offset,
) -> npt.NDArray[np.bool_]:
    """Return which records stay: see `log.flaws`, which says the same of a whole log."""
    above = offsets >= compacted_below
    if above.all():
        return above
    keys = records.column("key")
    stays = keys.is_valid().to_numpy(zero_copy_only=False) & (offsets >= last.last_offsets(keys))
    if (offsets < tombstones_below).any():
        is_tombstone = records.column("value").is_null().to_numpy(zero_copy_only=False)
        stays &= ~(is_tombstone & (offsets < tombstones_below))
    kept: npt.NDArray[np.bool_] = above | stays
    return kept
