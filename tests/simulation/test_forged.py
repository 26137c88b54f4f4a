"""Tables that are rolled back while they serve, or changed by hand: none of it is served or copied."""

import pytest

from tests.simulation.chunks import chunk_starts, missed, outcomes
from tests.simulation.faults.aimed_plans import forged
from tests.simulation.mutants.forging_mutants import FORGING_MUTANTS
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.simulation import simulate
from tests.simulation.test_simulation import failure_text

SEEDS = 15
SEEDS_MORE = 45
CHUNK = 5
MUTANT_SEEDS_MAX = 100

SOMETIMES = (
    "fault: forge",
    "fault: roll back live",
    "leader epoch raised where logs diverge",
    "replica lost",
    "replica created again",
    "truncation",
)


@pytest.mark.parametrize("first", chunk_starts(SEEDS, CHUNK))
def test_a_log_that_was_changed_by_hand_is_neither_read_nor_copied_nor_elected(first):
    failed, _ = outcomes(forged, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_MORE, CHUNK))
def test_it_is_so_with_more_seeds(first):
    failed, _ = outcomes(forged, first, CHUNK)

    assert failed is None, failure_text(failed)


def test_a_follower_of_a_changed_leader_is_cut_only_where_no_commit_rests_on_it():
    """A task from before the high watermark rose: its leader was changed by hand meanwhile."""
    outcome = simulate(forged(704))

    assert outcome.violation is None, failure_text(outcome)


def test_a_replica_that_was_lost_for_another_log_than_its_leaders_is_created_again():
    """Its files are whole, so each inspection took it back, and the next fetch called it lost."""
    outcome = simulate(forged(1134))

    assert outcome.violation is None, failure_text(outcome)


def test_every_event_that_a_plan_allows_happened():
    assert missed(forged, SOMETIMES, SEEDS_MORE, CHUNK) == []


@pytest.mark.parametrize("mutant", FORGING_MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(mutant):
    seeds = range(mutant.seed, mutant.seed + MUTANT_SEEDS_MAX)

    assert mutant.invariant in seen_without(mutant, map(forged, seeds))
