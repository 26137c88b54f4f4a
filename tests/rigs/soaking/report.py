"""Whether a run stayed as it was: its series by tenths, what grew, what was found. Pure.

A *seen* value is of a series at one moment, or how long one call took, at the moment of its answer.
Times are seconds since the measured part of the run began.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Final, NamedTuple

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

PARTS: Final = 10


class Seen(NamedTuple):
    """One value of a series; of a kind of call, whose name ends with `CALL`, its time in ms."""

    at_s: float
    name: str
    value: float


CALL: Final = ": call"
Tenth = Mapping[str, float]
"""The median of each series in a tenth of a run (of open files the lowest); of each kind of call the
count, p50 and p99. What was not seen in it is not there."""


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which `part` of them lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def tenths_of(seen: Iterable[Seen], run_s: float) -> list[Tenth]:
    """Return the ten tenths of a run of `run_s` seconds; what lies outside of it counts nowhere."""
    tenths = [defaultdict[str, list[float]](list) for _ in range(PARTS)]
    for each in seen:
        if 0 <= each.at_s < run_s:
            tenths[int(PARTS * each.at_s / run_s)][each.name].append(each.value)
    return [_tenth(each) for each in tenths]


def _tenth(series: Mapping[str, Sequence[float]]) -> Tenth:
    values = dict[str, float]()
    for name, each in series.items():
        if name.endswith(CALL):
            kind = name.removesuffix(CALL)
            values[f"{kind}: count"] = len(each)
            values[p50_of(kind)], values[p99_of(kind)] = (
                percentile(each, 0.5),
                percentile(each, 0.99),
            )
        else:
            values[name] = min(each) if name.startswith(DESCRIPTORS) else median(each)
    return values


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


def growths(tenths: Sequence[Tenth], judged: Collection[str], *, base: int = BASE) -> list[str]:
    """Return in words the worst tenth after the tenth `base` of each judged series that left its bound.

    A series that falls is no finding. One that is missing in a tenth can't be judged, and that is a
    finding: a process has stopped, or never began.
    """
    found = []
    for name in judged:
        if any(name not in each for each in tenths[BASE - 1 :]):
            found.append(f"{name}: nothing was seen in a tenth that it must be compared in")
            continue
        held = [each[name] for each in tenths[base - 1 :]]
        worst = max(range(len(held)), key=lambda each: held[each])
        bound = P99_BOUND if ": p99" in name else BOUND
        if held[worst] > bound * max(held[0], 0):
            found.append(
                f"{name}: {held[worst]:,.1f} in tenth {worst + base}, {held[0]:,.1f} in tenth {base},"
                f" where {bound:g} × are allowed"
            )
    return found


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
        growths: The judged series that left their bounds, in words.
        findings: What is wrong, in sentences: a record, a table, a client.
        errors: What clients met and tried again; for people.
    """

    minutes: float
    tenths: Sequence[Tenth]
    growths: Sequence[str]
    findings: Sequence[str]
    errors: Sequence[str]

    @classmethod
    def of(
        cls,
        minutes: float,
        seen: Iterable[Seen],
        findings: Sequence[str],
        errors: Sequence[str],
        *,
        times_are_judged: bool,
    ) -> "SoakReport":
        """`times_are_judged`: calls must not take longer. Else the machine does other work: that is
        printed only, and the rest is held against a later tenth."""
        tenths = tenths_of(seen, 60 * minutes)
        judged = [name_of(each) for each in CALLS for name_of in (p50_of, p99_of)]
        judged = judged if times_are_judged else []
        judged += [
            name_of(each) for each in (PLAIN, JVM, WORKERS) for name_of in (rss, descriptors)
        ]
        judged += [DATA_BYTES, DATA_FILES] if minutes >= SIZED_RUN_MINUTES else []
        judged += [BYTES, FILES] if minutes >= LONG_RUN_MINUTES else []
        grown = growths(tenths, judged, base=BASE if times_are_judged else BUSY_BASE)
        most = max((each.get(COMMITS, 0.0) for each in tenths), default=0.0)
        kept = f"a table has {most:,.0f} commit files, where {COMMITS_MAX:,} are allowed"
        wrong = [*findings, *([kept] if most > COMMITS_MAX else [])]
        return cls(minutes, tenths, grown, wrong, errors)

    @property
    def exit_code(self) -> int:
        """0 if nothing grew and nothing was found."""
        return 1 if self.growths or self.findings else 0

    def text(self) -> str:
        """Return all of it as people read it: a line a series, a column a tenth."""
        names = sorted({name for tenth in self.tenths for name in tenth})
        width = max(map(len, names), default=0)
        lines = [" " * width + "".join(f"{number:>10}" for number in range(1, 11))]
        for name in names:
            values = (each.get(name) for each in self.tenths)
            cells = (f"{'-' if value is None else f'{value:,.1f}':>10}" for value in values)
            lines.append(name.ljust(width) + "".join(cells))
        met = Counter(self.errors).most_common(ERRORS_SHOWN)
        lines += ["", *(f"met and tried again, {count} x: {each}" for each, count in met)]
        lines += [f"GREW: {each}" for each in self.growths]
        lines += [f"WRONG: {each}" for each in self.findings]
        lines.append(
            "It stayed as it was." if self.exit_code == 0 else "It did NOT stay as it was."
        )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "exit_code": self.exit_code}
