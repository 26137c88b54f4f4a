"""Each replica merges its files, whatever goes wrong meanwhile: nothing follows for anybody."""

import pytest

from tests.simulation.chunks import chunk_starts, missed, outcomes
from tests.simulation.faults.merged_plans import heirs, merged, parted, unanswered
from tests.simulation.mutants.merging_mutants import MERGING_MUTANTS
from tests.simulation.mutants.seeing import first_seen_without, seen_with
from tests.simulation.simulation import simulate
from tests.simulation.test_simulation import failure_text

SEEDS = 14
SEEDS_MORE = 300
SEEDS_TO_MEET_ALL = 100
CHUNK = 7
QUICK = 7
"""The chunk that meets all of `SOMETIMES`."""

MUTANT_SEEDS_MAX = 60

SOMETIMES = (
    "commit: merge",
    "commit: adopt",
    "commit: append_fetched",
    "commit: truncate_fully_and_start_at",
    "part of a merged segment fetched",
    "borders read",
    "dedup hit",
    "file cleaned",
    "truncation",
    "election",
    "fault: freeze",
    "speculative twin",
)


@pytest.mark.parametrize("first", chunk_starts(SEEDS, CHUNK, quick=QUICK))
def test_a_merge_changes_nothing_that_anybody_sees(first):
    failed, _ = outcomes(merged, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_MORE, CHUNK))
def test_a_merge_changes_nothing_with_more_seeds_either(first):
    failed, _ = outcomes(merged, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.parametrize("seeds", [1, pytest.param(MUTANT_SEEDS_MAX, marks=pytest.mark.long)])
@pytest.mark.parametrize("plan", [heirs, unanswered, parted])
def test_plans_that_show_what_a_rule_is_for_are_clean_with_it(plan, seeds):
    violations = [simulate(plan(seed)).violation for seed in range(seeds)]

    assert violations == [None] * seeds


def test_every_event_that_a_plan_allows_happened():
    assert missed(merged, SOMETIMES, SEEDS_TO_MEET_ALL, CHUNK, quick=QUICK) == []


@pytest.mark.parametrize("case", MERGING_MUTANTS, ids=lambda case: case.mutant.rule)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(case):
    violation, _ = first_seen_without(case, MUTANT_SEEDS_MAX)

    assert violation == case.invariant


@pytest.mark.long
@pytest.mark.parametrize("case", MERGING_MUTANTS, ids=lambda case: case.mutant.rule)
def test_with_all_rules_the_plan_that_shows_a_missing_one_is_clean(case):
    _, seed = first_seen_without(case, MUTANT_SEEDS_MAX)

    assert seen_with(case, seed) is None
