"""Disks that are nearly full, full or read-only: appends go on at once, and nothing is lost by it."""

import pytest

from tests.simulation.chunks import chunk_starts, missed, outcomes
from tests.simulation.faults.aimed_plans import filling
from tests.simulation.mutants.append_pass_mutants import FILLING_MUTANTS
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.test_simulation import failure_text

SEEDS = 10
SEEDS_MORE = 100
CHUNK = 5
MUTANT_SEEDS_MAX = 60

SOMETIMES = (
    "append without a disk",
    "fault: full",
    "fault: nearly full",
    "fault: read-only",
    "fenced for want of room",
    "refused write noted",
)


@pytest.mark.parametrize("first", chunk_starts(SEEDS, CHUNK))
def test_disks_without_room_lose_nothing_and_hold_up_nobody(first):
    failed, _ = outcomes(filling, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_MORE, CHUNK))
def test_it_is_so_with_more_seeds(first):
    failed, _ = outcomes(filling, first, CHUNK)

    assert failed is None, failure_text(failed)


def test_every_event_that_a_plan_allows_happened():
    assert missed(filling, SOMETIMES, SEEDS_MORE, CHUNK) == []


@pytest.mark.parametrize("mutant", FILLING_MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(mutant):
    seeds = range(mutant.seed, mutant.seed + MUTANT_SEEDS_MAX)

    assert mutant.invariant in seen_without(mutant, map(filling, seeds))
