"""Tells by which seed each mutant of the simulation is seen, and after how many: for its `seed`, or for
RARE in test_mutants.py. A mutant that is seen where its search begins takes a second, others a minute.

What a seed does changes with the code, so this is to be run again when the tests of mutants get slow. It
tries what they try, and takes as long: `./spark-submit.sh python -m tests.simulation.mutants.find_seeds`.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator

from tests.simulation.mutants.protocol_mutants import MUTANTS, Mutant
from tests.simulation.plan import Plan
from tests.simulation.simulation import simulate
from tests.simulation.test_aimed import AIMS
from tests.simulation.test_mutants import MAKERS, RARE, SEEDS_MAX

Maker = Callable[[int], Plan]
TRIES_MAX = 400


def from_seed(make: Maker, first: int) -> Iterator[tuple[Maker, int]]:
    return ((make, seed) for seed in range(first, first + TRIES_MAX))


def of_all_sorts(mutant: Mutant) -> Iterator[tuple[Maker, int]]:
    """Yield plans in the order of test_mutants.py."""
    if mutant.rule in RARE:
        plan = RARE[mutant.rule]
        yield (lambda _: plan), plan.seed
    yield from ((make, seed) for seed in range(SEEDS_MAX) for make in MAKERS)


def tell(mutant: Mutant, plans: Iterable[tuple[Maker, int]]) -> None:
    """Say after how many plans a mutant is seen, and by which."""
    found = "not seen"
    with mutant.alive():
        for tried, (make, seed) in enumerate(plans, 1):
            if simulate(make(seed)).violation == mutant.invariant:
                found = f"{tried:4} tried, {make.__name__}({seed})"
                break
    sys.stdout.write(f"{found:40} {mutant.rule}\n")
    sys.stdout.flush()


def main() -> None:
    logging.disable(logging.CRITICAL)
    for aim in AIMS:
        for mutant in aim.mutants:
            tell(mutant, from_seed(mutant.plan or aim.plan, mutant.seed))
    for mutant in MUTANTS:
        tell(mutant, of_all_sorts(mutant))


if __name__ == "__main__":
    main()
