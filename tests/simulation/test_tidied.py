"""Replicas' folders are cleaned by processes that freeze, die and come late; nothing named goes."""

import pytest

from tests.simulation.chunks import missed, outcomes
from tests.simulation.faults.aimed_plans import tidied
from tests.simulation.mutants.cleaning_mutants import CLEANING_MUTANTS
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.test_simulation import failure_text

SEEDS = 6
SEEDS_MORE = 30
CHUNK = 6
MUTANT_SEEDS_MAX = 60

SOMETIMES = (
    "file cleaned",
    "orphans seen",
    "leader epoch raised where logs diverge",  # or over orphans: of these plans none diverges
    "speculative twin",
    "fault: freeze",
    "fault: second driver",
    "fault: kill",
    "fault: roll back",
    "election",
    "commit: advance_log_start",
)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_a_cleaner_that_freezes_dies_or_is_late_deletes_nothing_that_is_named(first):
    failed, _ = outcomes(tidied, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_MORE, CHUNK))
def test_it_is_so_with_more_seeds(first):
    failed, _ = outcomes(tidied, first, CHUNK)

    assert failed is None, failure_text(failed)


def test_every_event_that_a_plan_allows_happened():
    assert missed(tidied, SOMETIMES, SEEDS_MORE, CHUNK) == []


@pytest.mark.parametrize("mutant", CLEANING_MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(mutant):
    seeds = range(mutant.seed, mutant.seed + MUTANT_SEEDS_MAX)

    assert mutant.invariant in seen_without(mutant, map(tidied, seeds))
