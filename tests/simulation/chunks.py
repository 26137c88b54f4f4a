"""Runs chunks of seeds once, for the tests that ask whether they are clean and what they met."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

from tests.simulation.plan import Plan
from tests.simulation.simulation import Outcome, simulate


@cache
def outcomes(
    plan: Callable[[int], Plan], first: int, count: int
) -> tuple[Outcome | None, Counter[str]]:
    """Return the first outcome of `count` seeds that fails, and what all of them met."""
    met: Counter[str] = Counter()
    for seed in range(first, first + count):
        outcome = simulate(plan(seed))
        met.update(outcome.seen)
        met.update({"seeds": 1, "port calls": outcome.calls})
        met["simulated seconds"] += int(outcome.simulated_ms / 1000)
        if outcome.violation is not None:
            return outcome, met
    return None, met


def chunk_starts(seeds: int, chunk: int, *, quick: int = 0) -> list[Any]:
    """Return where each chunk of so many seeds begins, as parameters: the one at `quick`, which meets
    every event, runs by default, and the others with --long."""
    return [
        pytest.param(first, marks=[pytest.mark.long] * (first != quick))
        for first in range(0, seeds, chunk)
    ]


def missed(
    plan: Callable[[int], Plan],
    names: Iterable[str],
    seeds_max: int,
    chunk: int,
    *,
    quick: int = 0,
) -> list[str]:
    """Return which events no seed meets: those of the chunk at `quick`, and where that is not enough
    all from 0 on, up to so many. They are clean, too."""
    met: Counter[str] = Counter()
    left = list(names)
    for first in sorted(range(0, seeds_max, chunk), key=lambda first: first != quick):
        failed, more = outcomes(plan, first, chunk)
        assert failed is None, f"seed={failed.plan.seed}: {failed.message}"
        met.update(more)
        left = [name for name in left if not met[name]]
        if not left:
            break
    return left
