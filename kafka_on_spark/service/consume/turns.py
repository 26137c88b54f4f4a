"""The rows that a consumer has read and not handed out yet: of one partition at a time.

A turn reads all that is committed of a partition, up to TURN_OFFSETS_MAX, because a file is read
and checked as a whole: partitions that took turns row by row would read it again and again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, Protocol, Self, TypeVar

from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.query.reads.read_order import ReadOrder

TURN_OFFSETS_MAX: Final = 1_000_000
"""So many offsets of one partition are read before the next has its turn."""


class RowBatch(Protocol):
    """Rows of one partition in offset order: a batch of Arrow's."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        ...

    def slice(self, offset: int, length: int) -> Self:
        """Return some of the rows."""
        ...


Rows = TypeVar("Rows", bound=RowBatch)


@dataclass(slots=True)
class Turn(Generic[Rows]):
    """A partition's turn.

    Attributes:
        order: What is read.
        source: The batches that are still to come.
        rows: The batch that is being handed out.
        start: Its first row that was not handed out.
    """

    order: ReadOrder
    source: Iterator[Rows]
    rows: Rows | None = None
    start: int = 0

    @property
    def key(self) -> PartitionKey:
        """The partition."""
        return self.order.key

    def peek(self, rows_max: int) -> Rows | None:
        """Return the next rows, which `advance` hands out; None at the end of the turn.

        Raises: as `read_rows`.
        """
        while self.rows is None or self.start >= self.rows.num_rows:
            self.rows, self.start = next(self.source, None), 0
            if self.rows is None:
                return None
        return self.rows.slice(self.start, min(rows_max, self.rows.num_rows - self.start))

    def advance(self, row_count: int) -> None:
        """Hand out some of the rows that `peek` has returned."""
        self.start += row_count


ReadRows = Callable[[ReadOrder], Iterator[Rows]]
"""Reads an order's rows; raises OffsetOutOfRangeError if records of it were deleted meanwhile."""

EndOf = Callable[[Rows], Offset]
"""Returns the offset after the last of some rows."""
