"""A cluster that nobody controls: appends decide for what they wait for, and harm nobody else."""

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from tests.simulation.mutants.seeing import seen_without
from tests.simulation.mutants.small_pass_mutants import SOLE_MUTANTS, UNCONTROLLED_MUTANTS
from tests.simulation.plan import Plan, sole, uncontrolled
from tests.simulation.simulation import Outcome, simulate
from tests.simulation.test_simulation import failure_text

SEEDS = 100
SOLE_SEEDS = 40
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


SOLE_SOMETIMES = ("append without a disk", "fault: denied", "fault: nap", "small pass")


@cache
def outcomes(first: int, plan: Callable[[int], Plan]) -> tuple[Outcome | None, Counter[str]]:
    """Return the first outcome of a chunk of seeds that fails, and what all of them met."""
    met: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        outcome = simulate(plan(seed))
        met.update(outcome.seen)
        if outcome.violation is not None:
            return outcome, met
    return None, met


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_small_passes_have_their_reasons_and_let_appends_end(first):
    failed, _ = outcomes(first, uncontrolled)

    assert failed is None, failure_text(failed)


@pytest.mark.parametrize("first", range(0, SOLE_SEEDS, CHUNK))
def test_a_sole_process_may_sleep_and_lack_permission_and_calls_no_broker_silent_for_it(first):
    failed, _ = outcomes(first, sole)

    assert failed is None, failure_text(failed)


@pytest.mark.parametrize(
    "plan, seeds, names", [(uncontrolled, SEEDS, SOMETIMES), (sole, SOLE_SEEDS, SOLE_SOMETIMES)]
)
def test_every_event_that_a_plan_allows_happened(plan, seeds, names):
    met: Counter[str] = Counter()
    for first in range(0, seeds, CHUNK):
        met.update(outcomes(first, plan)[1])

    assert [name for name in names if not met[name]] == []


@pytest.mark.parametrize(
    "plan, mutant",
    [
        *((uncontrolled, each) for each in UNCONTROLLED_MUTANTS),
        *((sole, each) for each in SOLE_MUTANTS),
    ],
    ids=lambda given: getattr(given, "rule", None),
)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(plan, mutant):
    seeds = range(mutant.seed, mutant.seed + MUTANT_SEEDS_MAX)

    assert mutant.invariant in seen_without(mutant, map(plan, seeds))
