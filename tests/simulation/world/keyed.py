"""Keys of a simulated cluster's records: a value says which key it has, and whether it deletes it."""

from collections.abc import Iterable, Sequence
from typing import Final

from kafka_on_spark.base.ids import Offset
from tests.kept import KeyedRecord

KEYS: Final = 5
"""In all partitions: few, so that most records are replaced soon."""


def key_of(value: int) -> bytes | None:
    """Return the key of a record; None: it has none."""
    return None if value < 0 or value % 23 == 7 else b"%d" % (value % KEYS)


def is_tombstone(value: int) -> bool:
    return value // KEYS % 3 == 1


def has_keyless(values: Iterable[int]) -> bool:
    return any(key_of(value) is None for value in values)


def keyed(rows: Iterable[tuple[int, int]]) -> list[KeyedRecord]:
    """Return records, given as (offset, value), as compaction looks at them."""
    return [KeyedRecord(Offset(at), key_of(value), is_tombstone(value)) for at, value in rows]


def table_of(rows: Sequence[tuple[int, int]]) -> dict[bytes, int]:
    """Return the offset of the last value of each key; what is deleted has none."""
    last: dict[bytes, KeyedRecord] = {}
    for each in keyed(rows):
        if each.key is not None:
            last[each.key] = each
    return {key: each.offset for key, each in last.items() if not each.is_tombstone}
