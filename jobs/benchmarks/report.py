"""What the benchmark says: rows with ratios and budgets, as JSON and as tables. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

COLUMNS = ("name", "value", "peer", "ratio", "budget", "met", "kafka, recorded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A bound on a row.

    Attributes:
        bound: The number.
        on: What is bounded: the ratio to the peer, or the value in the row's unit.
        is_most: Less is better; else the bound is a minimum.
    """

    bound: float
    on: Literal["ratio", "value"]
    is_most: bool = True

    def text(self, unit: str) -> str:
        """Return the bound as people read it."""
        sign = "≤" if self.is_most else "≥"
        return f"{sign} {self.bound:g} {'×' if self.on == 'ratio' else unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement.

    Attributes:
        name: What was measured.
        value: Ours, in `unit`.
        unit: "s", "ms", "MB/s", "records/s", "GiB".
        peer: What it is compared with, measured in the same run; None without one.
        peer_value: The peer's, in the same unit.
        ratio: Ours to the peer's.
        budget: The bound in words; None for a figure without one.
        met: Whether it was kept; None without a budget.
        recorded: What Apache Kafka took for the same, measured another time on a machine of this
            kind, in words (see `kafka_recorded`); None if that was not measured.
    """

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None
    budget: str | None = None
    met: bool | None = None
    recorded: str | None = None


def row(
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    peer: str | None = None,
    peer_values: Sequence[float] = (),
    budget: Budget | None = None,
    recorded: str | None = None,
) -> Row:
    """Return the row of repeated measurements: the medians, and the ratio of those."""
    value = median(values)
    peer_value = median(peer_values) if peer_values else None
    ratio = None if peer_value is None else value / peer_value
    return Row(
        name=name,
        value=significant(value),
        unit=unit,
        peer=peer,
        peer_value=None if peer_value is None else significant(peer_value),
        ratio=None if ratio is None else significant(ratio),
        budget=None if budget is None else budget.text(unit),
        met=None if budget is None else is_met(budget, value, ratio),
        recorded=recorded,
    )


def is_met(budget: Budget, value: float, ratio: float | None) -> bool:
    """Return whether a budget is kept; a bound on a ratio needs a peer."""
    bounded = value if budget.on == "value" else ratio
    assert bounded is not None, "a budget on a ratio needs a peer"
    return bounded <= budget.bound if budget.is_most else bounded >= budget.bound


def significant(number: float) -> float:
    """Return `number` to three significant digits: more would be noise."""
    return float(f"{number:.3g}")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of `values` that `share` of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    place = max(0, -int(-share * len(ordered) // 1) - 1)
    return ordered[min(place, len(ordered) - 1)]


def as_json(machine: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {"machine": machine, "rows": [asdict(each) for each in rows]}


def cells(each: Row) -> tuple[str, ...]:
    """Return a row's cells for people, one a column of COLUMNS."""
    peer = "" if each.peer is None else f"{each.peer_value:g} {each.unit}: {each.peer}"
    return (
        each.name,
        f"{each.value:g} {each.unit}",
        peer,
        "" if each.ratio is None else f"{each.ratio:.2f}",
        each.budget or "",
        "" if each.met is None else ("yes" if each.met else "NO"),
        each.recorded or "",
    )


def as_text(machine: dict[str, Any], rows: Sequence[Row]) -> str:
    """Return the rows as aligned text, under a line on the machine."""
    table = [COLUMNS, *(cells(each) for each in rows)]
    widths = [max(len(line[place]) for line in table) for place in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    said = ", ".join(f"{name} {value}" for name, value in machine.items())
    return "\n".join([said, "", lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def as_markdown(machine: dict[str, Any], rows: Sequence[Row]) -> str:
    """Return the rows as the table of docs/measured.md, under a line on the machine."""
    said = ", ".join(f"{name} {value}" for name, value in machine.items())
    table = [COLUMNS, ("---",) * len(COLUMNS), *(cells(each) for each in rows)]
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in table]
    return "\n".join([said, "", *lines])
