"""A cluster that nobody controls: appends decide for what they wait for, and harm nobody else."""

import pytest

from tests.simulation.chunks import chunk_starts, missed, outcomes
from tests.simulation.faults.aimed_plans import sole, uncontrolled
from tests.simulation.mutants.append_pass_mutants import SOLE_MUTANTS, UNCONTROLLED_MUTANTS
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.test_simulation import failure_text

SEEDS = 10
SEEDS_TO_MEET_ALL = 60
SEEDS_MORE = 100
SOLE_SEEDS_MORE = 40
CHUNK = 5
QUICK = 5
"""The chunk of `uncontrolled` that meets all of `SOMETIMES`."""

MUTANT_SEEDS_MAX = 100

SOMETIMES = (
    "append without a disk",
    "fault: cut off",
    "fault: denied",
    "fault: freeze",
    "fault: offline",
    "fault: rejoin",
    "append's pass",
    "append's pass after a dead controller",
)


SOLE_SOMETIMES = ("append without a disk", "fault: denied", "fault: nap", "append's pass")


@pytest.mark.parametrize("first", chunk_starts(SEEDS, CHUNK, quick=QUICK))
def test_what_appends_decide_has_its_reasons_and_lets_them_end(first):
    failed, _ = outcomes(uncontrolled, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_MORE, CHUNK))
def test_what_appends_decide_has_its_reasons_with_more_seeds_too(first):
    failed, _ = outcomes(uncontrolled, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.parametrize("first", chunk_starts(SOLE_SEEDS_MORE, CHUNK))
def test_a_sole_process_may_sleep_and_lack_permission_and_calls_no_broker_silent_for_it(first):
    failed, _ = outcomes(sole, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.parametrize(
    "plan, seeds_max, names, quick",
    [
        (uncontrolled, SEEDS_TO_MEET_ALL, SOMETIMES, QUICK),
        (sole, SOLE_SEEDS_MORE, SOLE_SOMETIMES, 0),
    ],
)
def test_every_event_that_a_plan_allows_happened(plan, seeds_max, names, quick):
    assert missed(plan, names, seeds_max, CHUNK, quick=quick) == []


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
