"""Runs chunks of seeds once, for the tests that ask whether they are clean and what they met."""

from collections import Counter
from collections.abc import Callable
from functools import cache

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
