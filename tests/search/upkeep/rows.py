"""What a log of the search holds, by offset: the names of its files say it.

A record is a letter. A plain file has one, and begins with it; of a merged one the name has each
record behind its distance from the base, so that records may be missing. A capital is a tombstone.
"""

from collections.abc import Mapping, Sequence

from kafka_on_spark.log.batch import Batch, LogPart
from kafka_on_spark.log.state import ReplicaState

Entry = tuple[str, int]
"""(value, epoch) of a record."""

Row = tuple[int, str]
"""(offset, value) of a record."""

FIRST_OF_OWN_KEY = "x"
"""Values from this letter on have a key of their own; all others share one."""


def rows_of(part: LogPart) -> tuple[Row, ...]:
    """Return the records of a part of a log, in order: a batch has one."""
    if isinstance(part, Batch):
        return ((part.base_offset, part.segments[0].uuid[0]),)
    text = part.segment.uuid[1:]
    pairs = zip(text[::2], text[1::2], strict=True)
    return tuple((part.base_offset + int(delta), value) for delta, value in pairs)


def merged_name(rows: Sequence[Row], base_offset: int) -> str:
    return "m" + "".join(f"{at - base_offset}{value}" for at, value in rows)


def entries_of(state: ReplicaState) -> dict[int, Entry]:
    """Return the records of a log, by offset, in order."""
    return {at: (value, part.leader_epoch) for part in state.batches for at, value in rows_of(part)}


def covered_epochs(state: ReplicaState) -> dict[int, int]:
    """Return the epoch that covers each offset of a log, also where the record is gone."""
    return {
        at: part.leader_epoch
        for part in state.batches
        for at in range(part.base_offset, part.end_offset)
    }


def key_of(value: str) -> str:
    """Return the key of a record."""
    letter = value.lower()
    return letter if letter >= FIRST_OF_OWN_KEY else "one"


def is_tombstone(value: str) -> bool:
    return value.isupper()


def table_of(entries: Mapping[int, Entry], start: int, end: int) -> dict[str, int]:
    """Return the offset of the last value of each key between two offsets; what is deleted has
    none."""
    last = {key_of(entries[at][0]): at for at in sorted(entries) if start <= at < end}
    return {key: at for key, at in last.items() if not is_tombstone(entries[at][0])}


def may_be_gone(
    committed: Sequence[Entry], offset: int, compacted_below: int, tombstones_below: int
) -> bool:
    """Return whether compaction takes the record at `offset`: below `compacted_below` another of its
    key follows, or it is a tombstone below `tombstones_below` (I27)."""
    if offset >= compacted_below:
        return False
    value = committed[offset][0]
    later = (committed[at][0] for at in range(offset + 1, min(compacted_below, len(committed))))
    if any(key_of(each) == key_of(value) for each in later):
        return True
    return is_tombstone(value) and offset < tombstones_below
