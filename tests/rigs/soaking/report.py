"""Whether a run stayed as it was: its series by tenths, what grew, what was found. Pure.

A *sample* is what the watcher has seen at one moment; a *latency* is how long one call took, at the
moment of its answer. Both have times in seconds since the measured part of the run began.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from tests.rigs.soaking.watching import (
    BYTES,
    COMMITS,
    DATA_BYTES,
    DATA_FILES,
    DESCRIPTORS,
    FILES,
    JVM,
    PLAIN,
    WORKERS,
    descriptors,
    rss,
)

PARTS = 10


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one moment."""

    at_s: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Latency:
    """How long one call took."""

    at_s: float
    kind: str
    took_s: float


@dataclass(frozen=True, slots=True)
class Tenth:
    """A tenth of the run.

    Attributes:
        values: The median of each series (of open files the lowest), and p50 and p99 of each kind
            of call in ms; what was not seen in this tenth is not there.
        calls: The number of calls of each kind.
    """

    values: Mapping[str, float]
    calls: Mapping[str, int]


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which `part` of them lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def tenths_of(samples: Sequence[Sample], latencies: Sequence[Latency], run_s: float) -> list[Tenth]:
    """Return the ten tenths of a run of `run_s` seconds; what lies outside of it counts nowhere."""
    seen: list[list[Sample]] = [[] for _ in range(PARTS)]
    called: list[list[Latency]] = [[] for _ in range(PARTS)]
    for sample in samples:
        if 0 <= sample.at_s < run_s:
            seen[int(PARTS * sample.at_s / run_s)].append(sample)
    for latency in latencies:
        if 0 <= latency.at_s < run_s:
            called[int(PARTS * latency.at_s / run_s)].append(latency)
    return [_tenth(*each) for each in zip(seen, called, strict=True)]


def _tenth(samples: Sequence[Sample], latencies: Sequence[Latency]) -> Tenth:
    series: dict[str, list[float]] = {}
    for sample in samples:
        for name, value in sample.values.items():
            series.setdefault(name, []).append(value)
    values = {
        name: min(each) if name.startswith(DESCRIPTORS) else median(each)
        for name, each in series.items()
    }
    took: dict[str, list[float]] = {}
    for latency in latencies:
        took.setdefault(latency.kind, []).append(1000 * latency.took_s)
    for kind, each in took.items():
        values[p50_of(kind)] = percentile(each, 0.5)
        values[p99_of(kind)] = percentile(each, 0.99)
    return Tenth(values, {kind: len(each) for kind, each in took.items()})


def p50_of(kind: str) -> str:
    return f"{kind}: p50 (ms)"


def p99_of(kind: str) -> str:
    """Return the name of the 99th percentile of a kind of call."""
    return f"{kind}: p99 (ms)"


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


CALLS = ("append", "send", "read", "stream", "open")
"""The calls whose latencies are judged; others are printed."""

ERRORS_SHOWN = 10
COMMITS_MAX = 2000
"""A table keeps 1,000 commits below its newest checkpoint, and one is written each 100 to 150; and
those of two minutes, of which a run makes no more than 15 a second on one table."""

SIZED_RUN_MINUTES = 20.0
"""Upkeep comes to a partition once a minute (log.cleaner.interval.ms), and what it deletes goes at
once: a tenth must have two of these for its median to say something of sizes."""

LONG_RUN_MINUTES = 60.0
"""A table has all the commits that it keeps after about a thousand appends: in a shorter run these
files still become more, so that bytes and files are judged without them."""


@dataclass(frozen=True, slots=True)
class SoakReport:
    """A run's result.

    Attributes:
        minutes: How long it was measured.
        tenths: What was seen in each tenth.
        findings: What is wrong, in sentences: a record, a table, a client.
        errors: What clients met and tried again; for people.
        times_are_judged: Calls must not take longer. Else the machine does other work: that is
            printed only, and the rest is held against a later tenth.
    """

    minutes: float
    tenths: Sequence[Tenth]
    findings: Sequence[str]
    errors: Sequence[str]
    times_are_judged: bool = True

    @property
    def judged(self) -> list[str]:
        """The series that must stay as they were."""
        kinds = (PLAIN, JVM, WORKERS)
        calls = CALLS if self.times_are_judged else ()
        names = [name_of(call) for call in calls for name_of in (p50_of, p99_of)]
        names += [name_of(kind) for kind in kinds for name_of in (rss, descriptors)]
        names += [DATA_BYTES, DATA_FILES] if self.minutes >= SIZED_RUN_MINUTES else []
        return names + ([BYTES, FILES] if self.minutes >= LONG_RUN_MINUTES else [])

    @property
    def wrong(self) -> list[str]:
        """The findings, and tables that keep too many commits."""
        most = max((each.values.get(COMMITS, 0.0) for each in self.tenths), default=0.0)
        kept = f"a table has {most:,.0f} commit files, where {COMMITS_MAX:,} are allowed"
        return [*self.findings, *([kept] if most > COMMITS_MAX else [])]

    @property
    def growths(self) -> list[Growth]:
        """The judged series that left their bounds."""
        base = BASE if self.times_are_judged else BUSY_BASE
        return growths(self.tenths, self.judged, base=base)

    @property
    def exit_code(self) -> int:
        """0 if nothing grew and nothing was found."""
        return 1 if self.growths or self.wrong else 0

    def text(self) -> str:
        """Return all of it as people read it: a line a series, a column a tenth."""
        names = sorted({name for tenth in self.tenths for name in tenth.values})
        width = max(map(len, names), default=0)
        lines = [" " * width + "".join(f"{number:>10}" for number in range(1, 11))]
        for name in names:
            values = (each.values.get(name) for each in self.tenths)
            cells = (f"{'-' if value is None else f'{value:,.1f}':>10}" for value in values)
            lines.append(name.ljust(width) + "".join(cells))
        lines += ["", *(f"met and tried again: {each}" for each in self.errors[:ERRORS_SHOWN])]
        lines += [f"GREW: {each.sentence}" for each in self.growths]
        lines += [f"WRONG: {each}" for each in self.wrong]
        lines.append(
            "It stayed as it was." if self.exit_code == 0 else "It did NOT stay as it was."
        )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        return {
            "minutes": self.minutes,
            "exit_code": self.exit_code,
            "tenths": [
                {"values": dict(each.values), "calls": dict(each.calls)} for each in self.tenths
            ],
            "growths": [each.sentence for each in self.growths],
            "findings": self.wrong,
            "errors": list(self.errors),
        }
