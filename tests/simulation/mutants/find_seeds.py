"""Tells by which seed each mutant of the simulation is seen, and after how many: for its `seed`, or for
RARE in test_mutants.py. A mutant that is seen where its search begins takes a second, others a minute.

What a seed does changes with the code, so this is to be run again when the tests of mutants get slow. It
tries what they try, and takes as long: `./spark-submit.sh python -m tests.simulation.mutants.find_seeds`.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator

from tests.simulation.compacted_plan import compacted
from tests.simulation.faults.aimed_plans import (
    filling,
    forged,
    retained,
    sole,
    tidied,
    uncontrolled,
)
from tests.simulation.mutants.append_pass_mutants import (
    FILLING_MUTANTS,
    SOLE_MUTANTS,
    UNCONTROLLED_MUTANTS,
)
from tests.simulation.mutants.cleaning_mutants import CLEANING_MUTANTS
from tests.simulation.mutants.compaction_mutants import COMPACTION_MUTANTS
from tests.simulation.mutants.expiring_mutants import EXPIRING_MUTANTS
from tests.simulation.mutants.forging_mutants import FORGING_MUTANTS
from tests.simulation.mutants.merging_mutants import MERGING_MUTANTS
from tests.simulation.mutants.protocol_mutants import MUTANTS, Mutant
from tests.simulation.mutants.retention_mutants import RETENTION_MUTANTS
from tests.simulation.plan import Plan
from tests.simulation.simulation import simulate
from tests.simulation.test_mutants import MAKERS, RARE, SEEDS_MAX

Maker = Callable[[int], Plan]
TRIES_MAX = 400

BY_INVARIANT: list[tuple[list[Mutant], Maker]] = [
    (COMPACTION_MUTANTS, compacted),
    (RETENTION_MUTANTS, retained),
    (CLEANING_MUTANTS, tidied),
    (FORGING_MUTANTS, forged),
    (UNCONTROLLED_MUTANTS, uncontrolled),
    (SOLE_MUTANTS, sole),
    (FILLING_MUTANTS, filling),
]
BY_ANYTHING = [*EXPIRING_MUTANTS, *MERGING_MUTANTS]
"""The first violation there is has to be the one of their rule."""


def from_seed(make: Maker, first: int) -> Iterator[tuple[Maker, int]]:
    return ((make, seed) for seed in range(first, first + TRIES_MAX))


def of_all_sorts(mutant: Mutant) -> Iterator[tuple[Maker, int]]:
    """Yield plans in the order of test_mutants.py."""
    if mutant.rule in RARE:
        plan = RARE[mutant.rule]
        yield (lambda _: plan), plan.seed
    yield from ((make, seed) for seed in range(SEEDS_MAX) for make in MAKERS)


def tell(
    mutant: Mutant, plans: Iterable[tuple[Maker, int]], is_seen: Callable[[str], bool]
) -> None:
    """Say after how many plans a mutant is seen, and by which."""
    found = "not seen"
    with mutant.alive():
        for tried, (make, seed) in enumerate(plans, 1):
            violation = simulate(make(seed)).violation
            if violation is not None and is_seen(violation):
                found = f"{tried:4} tried, {make.__name__}({seed})"
                break
    sys.stdout.write(f"{found:40} {mutant.rule}\n")
    sys.stdout.flush()


def main() -> None:
    logging.disable(logging.CRITICAL)
    for mutants, make in BY_INVARIANT:
        for mutant in mutants:
            tell(mutant, from_seed(make, mutant.seed), mutant.invariant.__eq__)
    for case in BY_ANYTHING:
        tell(case.mutant, from_seed(case.plan, case.mutant.seed), lambda _: True)
    for mutant in MUTANTS:
        tell(mutant, of_all_sorts(mutant), mutant.invariant.__eq__)


if __name__ == "__main__":
    main()
