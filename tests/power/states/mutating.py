"""Looks for a state in which code without a flush breaks a promise."""

import random
from collections.abc import Collection

from tests.power.states.checks import Bench
from tests.power.states.crashes import Record, crash_states
from tests.power.states.looking import SEED, violations
from tests.power.states.mutants import Mutant

STATES_MAX = 240
AT_ONCE = 8
DRAWN = 1
MOMENTS = (16, 4, 1)
"""One of so many moments is searched, and then each: most flushes are missed at most moments."""


def what_comes_of(mutant: Mutant, bench: Bench, record: Record, known: Collection[bytes]) -> str:
    """Return what is wrong with the first state that breaks a promise; states that are `known` to be
    possible with the flush are left out."""
    without, rng = record.without(mutant.what), random.Random(SEED)
    for each_moment in MOMENTS:
        states = crash_states(without, rng, drawn=DRAWN, each_moment=each_moment)
        fresh = [each for each in states if each.identity not in known]
        rng.shuffle(fresh)
        for start in range(0, min(STATES_MAX, len(fresh)), AT_ONCE):
            some = sorted(fresh[start : start + AT_ONCE], key=lambda each: each.at)
            for found in violations(bench, without, some, goes_on_each=4):
                return str(found).replace(f"{bench.base}/", "")
    raise AssertionError(f"none of {len(fresh)} states without the flush breaks a promise")
