"""What compaction is: what a replica keeps, as a function of its whole log and of a decision.

The compactor of the product comes to the same group by group, with hashes of keys in bounded memory.
Source: Cleaner's shouldRetainRecord, but for the time of a tombstone: there each batch has a horizon
of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_on_spark.base.ids import Offset


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """As much of a record as compaction reads. A tombstone has no value, and deletes its key."""

    offset: Offset
    key: bytes | None
    is_tombstone: bool = False


def kept_records(
    records: Sequence[KeyedRecord], *, compacted_below: Offset, tombstones_below: Offset
) -> list[KeyedRecord]:
    """Return which of `records`, in offset order, a replica keeps that has finished a decision.

    Below `compacted_below` the last record of each key there, without records of no key and without
    tombstones below `tombstones_below`; from `compacted_below` on all. Since both only rise, it is
    the same to apply a decision to a log, or to what an earlier decision has left of it.
    """
    last = {each.key: each.offset for each in records if each.offset < compacted_below}
    return [
        each
        for each in records
        if each.offset >= compacted_below
        or (
            each.key is not None
            and last[each.key] == each.offset
            and not (each.is_tombstone and each.offset < tombstones_below)
        )
    ]
