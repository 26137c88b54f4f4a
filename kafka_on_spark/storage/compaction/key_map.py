"""The last offset of each key in a range of a log, in a bounded and known size.

Keys are held as 128-bit hashes in sorted arrays. Two keys of one hash would lose a record: among a
billion keys that is expected once in 10^20 logs. Ten million keys take 540 MiB while they are
sorted. Source: SkimpyOffsetMap, with MD5.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_on_spark.storage.hashing import key_hashes

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
