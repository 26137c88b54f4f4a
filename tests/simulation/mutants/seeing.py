"""What the simulation sees while a rule is switched off."""

from collections.abc import Iterable

from tests.simulation.mutants.protocol_mutants import Mutant
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
