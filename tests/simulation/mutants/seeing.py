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


def first_seen_without(case: CaughtMutant, seeds_max: int) -> tuple[str | None, int]:
    """Return what the first of a case's plans that shows anything shows without the rule, and its
    seed. `seeds_max`: so many are tried, from the mutant's own on."""
    first = case.mutant.seed
    with case.mutant.alive():
        for seed in range(first, first + seeds_max):
            violation = simulate(case.plan(seed)).violation
            if violation is not None:
                return violation, seed
    return None, first


def seen_with(case: CaughtMutant, seed: int) -> str | None:
    """Return what a plan of a case shows with all rules; each is run once for all cases."""
    failed, _ = outcomes(case.plan, seed, 1)
    return failed and failed.violation
