"""Producers and groups that fall silent, and come back: what expires is silent, and what has expired
is refused; what a log knows of producers is lost with no file of it, and doubled by nobody."""

import pytest

from tests.simulation.chunks import missed, outcomes
from tests.simulation.faults.expiring_plans import ahead, behind, expiring, late
from tests.simulation.mutants.expiring_mutants import EXPIRING_MUTANTS
from tests.simulation.mutants.seeing import first_seen_without, seen_with
from tests.simulation.test_simulation import failure_text

SEEDS = 10
SEEDS_TO_MEET_ALL = 30
SEEDS_MORE = 300
CHUNK = 5
MUTANT_SEEDS_MAX = 30

SOMETIMES = (
    "producer id expired",
    "group's offset expired",
    "group saved where it is",
    "expired id refused",
    "expired id came back",
    "dedup hit",
    "commit: merge",
    "commit: advance_log_start",
    "deleted by retention",
    "fault: controller clock jump",
    "fault: root clock jump",
    "fault: lose producers",
    "late producers file",
    "replica lost",
    "election",
    "unclean generation",
)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_only_what_is_silent_expires_and_nothing_comes_back_twice(first):
    failed, _ = outcomes(expiring, first, CHUNK)

    assert failed is None, failure_text(failed)


def test_a_clock_of_a_client_that_is_behind_has_nobody_expire():
    failed, met = outcomes(behind, 0, CHUNK)

    assert failed is None, failure_text(failed)
    assert met["fault: client clock jump"] > 0
    assert met["fault: member clock jump"] > 0


def test_a_clock_that_is_hours_or_years_ahead_gives_nobody_its_time_and_has_nothing_go():
    failed, met = outcomes(ahead, 0, CHUNK)

    assert failed is None, failure_text(failed)
    assert met["fault: clock far ahead"] > 0
    assert met["deleted by retention"] > 0
    assert met["producer id expired"] > 0


def test_processes_that_begin_late_and_far_behind_bring_nothing_back():
    failed, met = outcomes(late, 0, 1)

    assert failed is None, failure_text(failed)
    assert met["commit: merge"] > 0
    assert met["producer id expired"] > 0


@pytest.mark.long
@pytest.mark.parametrize("plan", [ahead, behind, expiring, late], ids=lambda plan: plan.__name__)
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_MORE, CHUNK))
def test_it_is_so_with_more_seeds(first, plan):
    failed, _ = outcomes(plan, first, CHUNK)

    assert failed is None, failure_text(failed)


def test_every_event_that_a_plan_allows_happened():
    assert missed(expiring, SOMETIMES, SEEDS_TO_MEET_ALL, CHUNK) == []


@pytest.mark.parametrize("case", EXPIRING_MUTANTS, ids=lambda case: case.mutant.rule)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(case):
    violation, _ = first_seen_without(case, MUTANT_SEEDS_MAX)

    assert violation == case.invariant


@pytest.mark.long
@pytest.mark.parametrize("case", EXPIRING_MUTANTS, ids=lambda case: case.mutant.rule)
def test_with_all_rules_the_plan_that_shows_a_missing_one_is_clean(case):
    _, seed = first_seen_without(case, MUTANT_SEEDS_MAX)

    assert seen_with(case, seed) is None
