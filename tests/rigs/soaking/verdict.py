"""Whether a run stayed as it was: each tenth against an early one. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tests.rigs.soaking.tenths import Tenth

BASE: Final = 2
"""The second tenth: in the first, processes still start and fill what they keep."""

BUSY_BASE: Final = 5
"""On a machine that does other work they start until then: a kind of work that takes a moment is
begun for the first time after minutes, and brings Spark another process."""

BOUND: Final = 1.25
P99_BOUND: Final = 2.0


@dataclass(frozen=True, slots=True)
class Growth:
    """A series that left its bound in one tenth.

    Attributes:
        name: The series.
        tenth: Which tenth, from 1; 0: the series is not judged at all, since it has no base.
        ratio: To the tenth `base`.
        bound: What was allowed.
        base: The tenth that it is held against, from 1.
    """

    name: str
    tenth: int
    ratio: float
    bound: float
    base: int

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if self.tenth == 0:
            return f"{self.name}: nothing was seen in a tenth that it must be compared in"
        return (
            f"{self.name}: {self.ratio:.2f} × tenth {self.base} in tenth {self.tenth}, where"
            f" {self.bound:g} × are allowed"
        )


def bound_of(name: str) -> float:
    """Return how often its early tenth a series may be."""
    return P99_BOUND if ": p99" in name else BOUND


def growths(tenths: Sequence[Tenth], judged: Collection[str], *, base: int = BASE) -> list[Growth]:
    """Return the worst tenth after the tenth `base` of each judged series that left its bound.

    A series that falls is no finding. One that is missing in a tenth can't be judged, and that is a
    finding: a process has stopped, or never began.
    """
    found = []
    for name in judged:
        values = [each.values.get(name) for each in tenths[BASE - 1 :]]
        seen = [value for value in values if value is not None]
        if len(seen) < len(values):
            found.append(Growth(name, 0, 0.0, bound_of(name), base))
            continue
        held = seen[base - BASE :]
        ratios = [_ratio(value, held[0]) for value in held]
        worst = max(range(len(ratios)), key=lambda each: ratios[each])
        if ratios[worst] > bound_of(name):
            found.append(Growth(name, worst + base, ratios[worst], bound_of(name), base))
    return found


def _ratio(value: float, base: float) -> float:
    if base > 0:
        return value / base
    return 1.0 if value <= 0 else float("inf")
