"""Tells by which seed each mutant of the simulation is seen, and after how many: for its `seed`. A mutant
that is seen where its search begins takes a second, others a minute.

What a seed does changes with the code, so this is to be run again when the tests of mutants get slow. It
tries what they try, and takes as long: `./spark-submit.sh python -m tests.simulation.mutants.find_seeds`.
"""

import logging
import sys

from tests.simulation.mutants.seeing import seen_without
from tests.simulation.test_aimed import AIMS

TRIES_MAX = 400


def main() -> None:
    logging.disable(logging.CRITICAL)
    for aim in AIMS:
        for mutant in aim.mutants:
            make = mutant.plan or aim.plan
            plans = map(make, range(mutant.seed, mutant.seed + TRIES_MAX))
            found = seen_without(mutant, plans).get(mutant.invariant)
            told = "not seen" if found is None else f"{make.__name__}({found.seed})"
            sys.stdout.write(f"{told:20} {mutant.seed:5} {mutant.rule}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
