"""Records on their way from lines to Arrow: a list a column, since these are made fastest."""

from collections.abc import Sequence
from dataclasses import dataclass, field

Headers = list[tuple[str, bytes | None]]


@dataclass(slots=True, kw_only=True)
class Columns:
    """Records, column by column.

    Attributes:
        values: One a record; None is a tombstone.
        keys: One a record, or None: no record has a key.
        headers: One a record, or None: no record has headers.
        timestamps_us: µs since 1970 UTC, one a record, or None: all are appended as of now.
        partitions: One a record, or None: the key decides, or whoever appends.
        places: Where each record stood among the lines it came from; None: at its own number.
    """

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] | None = None
    headers: list[Headers] | None = None
    timestamps_us: list[int | None] | None = None
    partitions: list[int | None] | None = None
    places: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def place(self, number: int) -> int:
        """Return among which line of its chunk record `number` stood."""
        return number if self.places is None else self.places[number]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record.

    Attributes:
        place: Its number in its chunk, from 0.
        why: What was given, what is allowed; follows "line 7 ".
    """

    place: int
    why: str
