"""A rule of a table's log that is taken out is seen to be missing: the search is not blind."""

import pytest

from tests.search.logs.log_mutants import LOG_MUTANTS, REDUNDANT
from tests.search.logs.log_search import search_log

NEAR_MAX = 10_000


@pytest.mark.parametrize("mutant", LOG_MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_missing_rule_of_a_log_is_seen(mutant, record_property):
    with mutant.alive():
        found = search_log(mutant.scope)

    record_property("search", f"{found.states:,} states to {found.violation}: {mutant.rule}")
    assert found.violation == mutant.invariant, f"{found.states} states, {found.message}"


@pytest.mark.parametrize("mutant", REDUNDANT, ids=lambda mutant: mutant.rule)
def test_without_a_rule_of_a_log_that_another_stands_behind_no_harm_is_near(mutant):
    with mutant.alive():
        found = search_log(mutant.scope, NEAR_MAX)

    assert found.violation is None, "\n".join([found.message, *found.path])


@pytest.mark.long
@pytest.mark.parametrize("mutant", REDUNDANT, ids=lambda mutant: mutant.rule)
def test_a_rule_of_a_log_that_another_stands_behind_is_not_missed(mutant):
    with mutant.alive():
        found = search_log(mutant.scope)

    assert found.is_whole
    assert found.violation is None, "\n".join([found.message, *found.path])
