"""Whether a run stayed as it was: each tenth against the second. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from jobs.soaking.tenths import Tenth

BASE: Final = 1
"""The second tenth: in the first, processes still start and fill what they keep."""

BOUND: Final = 1.25
P99_BOUND: Final = 2.0


@dataclass(frozen=True, slots=True)
class Growth:
    """A series that left its bound in one tenth.

    Attributes:
        name: The series.
        tenth: Which tenth, from 1; 0: the series is not judged at all, since it has no base.
        ratio: To the second tenth.
        bound: What was allowed.
    """

    name: str
    tenth: int
    ratio: float
    bound: float

    @property
    def sentence(self) -> str:
        """The finding in words."""
        if self.tenth == 0:
            return f"{self.name}: nothing was seen in a tenth that it must be compared in"
        return (
            f"{self.name}: {self.ratio:.2f} × the second tenth in tenth {self.tenth}, where"
            f" {self.bound:g} × are allowed"
        )


def bound_of(name: str) -> float:
    """Return how often its second tenth a series may be."""
    return P99_BOUND if ": p99" in name else BOUND


def growths(tenths: Sequence[Tenth], judged: Collection[str]) -> list[Growth]:
    """Return the worst tenth after the second of each judged series that left its bound.

    A series that falls is no finding. One that is missing in a tenth can't be judged, and that is a
    finding: a process has stopped, or never began.
    """
    found = []
    for name in judged:
        values = [each.values.get(name) for each in tenths[BASE:]]
        seen = [value for value in values if value is not None]
        if len(seen) < len(values):
            found.append(Growth(name, 0, 0.0, bound_of(name)))
            continue
        ratios = [_ratio(value, seen[0]) for value in seen]
        worst = max(range(len(ratios)), key=lambda each: ratios[each])
        if ratios[worst] > bound_of(name):
            found.append(Growth(name, worst + BASE + 1, ratios[worst], bound_of(name)))
    return found


def _ratio(value: float, base: float) -> float:
    if base > 0:
        return value / base
    return 1.0 if value <= 0 else float("inf")
