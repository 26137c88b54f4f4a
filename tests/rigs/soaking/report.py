"""What a run says: its series by tenths, what grew, what was found. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.rigs.soaking.tenths import Tenth, p50_of, p99_of
from tests.rigs.soaking.verdict import BASE, BUSY_BASE, Growth, growths
from tests.rigs.soaking.watching import (
    BYTES,
    COMMITS,
    DATA_BYTES,
    DATA_FILES,
    FILES,
    JVM,
    PLAIN,
    WORKERS,
    descriptors,
    rss,
)

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
        """Return the report as plain values."""
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
