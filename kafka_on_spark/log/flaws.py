"""What in a replica's log shows that it has not finished a decision of compaction (I27).

Below `compacted_below` a replica keeps the last record of each key there, without records of no key
and without tombstones below `tombstones_below`; from `compacted_below` on all. Since both only
rise, it is the same to apply a decision to a log, or to what an earlier decision has left of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafka_on_spark.base.ids import Offset


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """As much of a record as compaction looks at.

    Attributes:
        offset: Its offset.
        key: Its key, or a hash of it; None: it has none.
        is_tombstone: It has no value, so it deletes its key.
    """

    offset: Offset
    key: bytes | None
    is_tombstone: bool = False


class CompactionFlaw(NamedTuple):
    """A record that should not be there: its offset, and why in a sentence."""

    offset: Offset
    sentence: str


def compaction_flaws(
    records: Iterable[KeyedRecord], *, compacted_below: Offset, tombstones_below: Offset
) -> Iterable[CompactionFlaw]:
    """Yield what in a replica's log shows that it has not finished a decision (I27).

    `records` may leave out those whose keys no other has. Which records are missing can't be seen
    in what is left of a log.
    """
    seen: dict[bytes, Offset] = {}
    for each in records:
        if each.offset >= compacted_below:
            return
        if each.key is None:
            sentence = f"the record at {each.offset}, below {compacted_below}, has no key"
            yield CompactionFlaw(each.offset, sentence)
            continue
        if each.key in seen:
            sentence = (
                f"the key of the record at {each.offset} stands at {seen[each.key]} too, below"
                f" {compacted_below}"
            )
            yield CompactionFlaw(each.offset, sentence)
        if each.is_tombstone and each.offset < tombstones_below:
            sentence = f"a tombstone is kept at {each.offset}, below {tombstones_below}"
            yield CompactionFlaw(each.offset, sentence)
        seen[each.key] = each.offset
