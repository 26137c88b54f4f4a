"""From a seed that fails to the shortest script found that fails alike (delta debugging).

A script's entries are decisions; one that has become impossible changes nothing, so any part of a
script is a script. What is cut first is what explains most: the end, whole kinds of faults, whole
processes; then halves, quarters and so on of what is left.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tests.simulation.plan import Plan
from tests.simulation.simulation import Decision, Outcome, simulate

RUNS_MAX: Final = 400
"""Runs that a shrinking may take: half a minute or so."""


class _Budget:
    """Runs that are left."""

    def __init__(self, runs_max: int) -> None:
        self.left = runs_max

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def shrink(found: Outcome, *, runs_max: int = RUNS_MAX) -> list[Decision]:
    """Return a script as short as could be found that breaks the same invariant as `found`."""
    assert found.violation is not None, "nothing to shrink: nothing failed"
    budget = _Budget(runs_max)

    def fails(script: Sequence[Decision]) -> bool:
        return budget.take() and simulate(found.plan, script).violation == found.violation

    script = list(found.script)
    for part in _parts(script):
        without = [each for each in script if not part(each)]
        if len(without) < len(script) and fails(without):
            script = without
    return _minimized(script, fails, budget)


def _parts(script: Iterable[Decision]) -> list[Callable[[Decision], bool]]:
    """Return what may be left out at once: each event, each fault of a call, each process."""
    events = sorted({each[1] for each in script if each[0] == "event"})
    nodes = sorted({each[1].split("-")[0].split(".")[0] for each in script if each[0] == "run"})
    return [
        *(lambda each, name=name: each[0] == "event" and each[1] == name for name in events),
        *(
            lambda each, name=name: each[0] == "run" and each[1].split("-")[0] == name
            for name in nodes
        ),
    ]


def _minimized(
    script: list[Decision], fails: Callable[[Sequence[Decision]], bool], budget: _Budget
) -> list[Decision]:
    size = len(script) // 2
    while size >= 1 and budget.left > 0:
        place, was_cut = 0, False
        while place < len(script) and budget.left > 0:
            without = script[:place] + script[place + size :]
            if fails(without):
                script, was_cut = without, True
            else:
                place += size
        if not was_cut or size > len(script):
            size //= 2
    return _without_faults(script, fails)


def _without_faults(
    script: list[Decision], fails: Callable[[Sequence[Decision]], bool]
) -> list[Decision]:
    """Take the faults of calls away one by one, the calls themselves kept."""
    for place, each in enumerate(script):
        if each[0] == "run" and each[2]:
            calm = [*script[:place], (each[0], each[1], ""), *script[place + 1 :]]
            if fails(calm):
                script = calm
    return script


def as_text(script: Iterable[Decision]) -> str:
    """Return a script as a literal: a line a decision; a task that goes on is `× steps`."""
    lines: list[str] = []
    for each in script:
        line = (
            " | ".join(each[1:]).removesuffix(" | ")
            if each[0] == "run"
            else "! " + " | ".join(each[1:])
        )
        last, _, count = lines[-1].partition(" × ") if lines else ("", "", "")
        if last == line and each[0] == "run":
            lines[-1] = f"{line} × {int(count or 1) + 1}"
        else:
            lines.append(line)
    return "\n".join(lines)


def from_text(text: str) -> list[Decision]:
    """Read what `as_text` wrote."""
    script: list[Decision] = []
    for line in filter(None, (each.strip() for each in text.splitlines())):
        if line.startswith("! "):
            script.append(("event", *line[2:].split(" | ")))
            continue
        what, _, count = line.partition(" × ")
        task, _, fault = what.partition(" | ")
        script.extend([("run", task, fault)] * int(count or 1))
    return script


def replay(plan: Plan, text: str) -> Outcome:
    """Run a script that stands in a test."""
    return simulate(plan, from_text(text))
