"""A cluster that nobody controls: appends decide for what they wait for, and harm nobody else."""

from collections import Counter
from functools import cache

import pytest

from tests.simulation.lonely_mutants import LONELY_MUTANTS
from tests.simulation.plan import lonely
from tests.simulation.simulation import Outcome, simulate
from tests.simulation.test_simulation import failure_text

SEEDS = 60
CHUNK = 20
MUTANT_SEEDS_MAX = 100

SOMETIMES = (
    "append without a disk",
    "fault: cut off",
    "fault: denied",
    "fault: freeze",
    "fault: offline",
    "fault: rejoin",
    "small pass",
    "small pass after a dead controller",
)


@cache
def outcomes(first: int) -> tuple[Outcome | None, Counter[str]]:
    """Return the first outcome of a chunk of seeds that fails, and what all of them met."""
    met: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        outcome = simulate(lonely(seed))
        met.update(outcome.seen)
        if outcome.violation is not None:
            return outcome, met
    return None, met


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_small_passes_have_their_reasons_and_save_appends(first):
    failed, _ = outcomes(first)

    assert failed is None, failure_text(failed)


def test_everything_of_it_happened():
    met: Counter[str] = Counter()
    for first in range(0, SEEDS, CHUNK):
        met.update(outcomes(first)[1])

    assert [name for name in SOMETIMES if not met[name]] == []


@pytest.mark.parametrize("mutant", LONELY_MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_missing_rule_is_seen(mutant):
    with mutant.alive():
        violations = (simulate(lonely(seed)).violation for seed in range(MUTANT_SEEDS_MAX))
        assert next(filter(None, violations), None) is not None
