"""What the simulation sees while a rule is switched off."""

from collections.abc import Iterable

from tests.simulation.chunks import outcomes
from tests.simulation.mutants.protocol_mutants import CaughtMutant, Mutant
from tests.simulation.plan import Plan
from tests.simulation.simulation import simulate


def seen_without(mutant: Mutant, plans: Iterable[Plan]) -> dict[str, Plan]:
    """Return the violations without a rule, each with the first plan that shows it, up to that of the
    invariant which the rule keeps: what breaks first depends on what happens next."""
    seen: dict[str, Plan] = {}
    with mutant.alive():
        for plan in plans:
            violation = simulate(plan).violation
            if violation is not None:
                seen.setdefault(violation, plan)
            if violation == mutant.invariant:
                break
    return seen


def without_and_with(case: CaughtMutant, seeds_max: int) -> tuple[str | None, str | None]:
    """Return what the first of a case's plans that shows anything shows without the rule, and what
    the same plan shows with it. `seeds_max`: so many are tried, from the mutant's own on."""
    first = case.mutant.seed
    for seed in range(first, first + seeds_max):
        with case.mutant.alive():
            violation = simulate(case.plan(seed)).violation
        if violation is not None:
            failed, _ = outcomes(case.plan, seed, 1)  # once for all cases that a plan shows
            return violation, failed and failed.violation
    return None, None
