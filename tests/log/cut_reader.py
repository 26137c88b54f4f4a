"""A reader of tables as of a cut, and of what has changed since, in the model of a compacted log."""

from types import SimpleNamespace
from typing import Any

from kafka_on_spark.base.errors import OffsetOutOfRangeError
from kafka_on_spark.base.ids import Offset, TopicPartition
from kafka_on_spark.log import read_order


class BrokenError(AssertionError):
    """An invariant does not hold; the message begins with its name."""


class ImpossibleError(AssertionError):
    """A script's step can't be taken."""


Table = dict[bytes | None, Offset]
"""The offset of each key's value."""


def table_of(records, below) -> Table:
    """Return each key's last value's offset below an offset; tombstones delete."""
    last = {each.key: each for each in records if each.offset < below}
    return {key: each.offset for key, each in last.items() if not each.is_tombstone}


class CutReader:
    """Each method is a step of `log`, and False if it can't be taken."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._planned = Offset(0)
        self._read: tuple[Offset, Table] | None = None

    def plan(self) -> bool:
        """Plan a read of the table as of now."""
        self._planned = self._log.partition.high_watermark
        return True

    def read_table(self, number: int) -> bool:
        """Read the table that was planned from a replica as it is by now."""
        return self._apply(number, Offset(0), {}, tombstones_max=None)

    def read_changes(self, number: int) -> bool:
        if self._read is None:
            return False
        start, table = self._read
        self.plan()
        return self._apply(number, start, dict(table), tombstones_max=start)

    def _apply(
        self, number: int, start: Offset, table: Table, *, tombstones_max: Offset | None
    ) -> bool:
        replica, end = self._log.replicas[number], self._planned
        if not self._log.may_read(number):
            return False
        self._read = None
        try:
            order = SimpleNamespace(
                name=TopicPartition("t", 0), compacted_max=end, tombstones_max=tombstones_max
            )
            read_order.check_left(order, replica.progress)
        except OffsetOutOfRangeError:
            self._log.seen.add("a cut is refused")
            return True
        for each in replica.records:
            if start <= each.offset < end:
                table.pop(each.key, None)
                if not each.is_tombstone:
                    table[each.key] = each.offset
        true = table_of(self._log.leader.whole, end)
        true.pop(None, None)
        if table != true:
            raise BrokenError(f"a cut has {table}, not {true}")
        self._read = (end, table)
        return True
