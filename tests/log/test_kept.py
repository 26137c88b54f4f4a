"""What compaction keeps of a log: all small logs, by the compactor and the model."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pyarrow as pa

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.compactor import KeyMap, _kept
from tests.kept import KeyedRecord, kept_records


def log_of(text: str) -> list[KeyedRecord]:
    """Read "a b -a ." as values of a and b, a tombstone of a and a record without a key."""
    return [
        KeyedRecord(
            Offset(offset), None if word == "." else word[-1:].encode(), word.startswith("-")
        )
        for offset, word in enumerate(text.split())
    ]


def kept_by_compactor(
    records: list[KeyedRecord], *, compacted_below: int, tombstones_below: int
) -> list[KeyedRecord]:
    offsets = np.array([each.offset for each in records], np.int64)
    keys = pa.array([each.key for each in records], pa.binary())
    values = pa.array([None if each.is_tombstone else b"v" for each in records], pa.binary())
    last, below = KeyMap(), offsets < compacted_below
    last.add(keys.filter(pa.array(below)), offsets[below])
    stays = _kept(
        pa.RecordBatch.from_arrays([keys, values], ["key", "value"]),
        offsets,
        last=last,
        compacted_below=Offset(compacted_below),
        tombstones_below=Offset(tombstones_below),
    )
    return [each for each, is_kept in zip(records, stays, strict=True) if is_kept]


def all_small_logs():
    for size in range(5):
        for words in product(("a", "b", "-a", "."), repeat=size):
            yield " ".join(words), size


def all_decisions(size: int) -> Iterator[dict[str, int]]:
    for compacted_below in range(size + 1):
        for tombstones_below in range(compacted_below + 1):
            yield {"compacted_below": compacted_below, "tombstones_below": tombstones_below}


def test_of_every_small_log_the_compactor_keeps_what_the_model_says():
    for text, size in all_small_logs():
        records = log_of(text)
        for decided in all_decisions(size):
            left = kept_by_compactor(records, **decided)
            assert left == kept_records(records, **decided), (text, decided)
