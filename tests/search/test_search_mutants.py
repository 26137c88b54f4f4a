"""A rule of the protocol that is switched off is seen to be missing: the search is not blind."""

import pytest

from tests.search.mutants import CASES, REDUNDANT
from tests.search.search import search

STATES_MAX = 400_000
CLEAN_MAX = 10_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_missing_rule_is_seen(case, record_property):
    with case.mutant.alive():
        found = search(case.scope, STATES_MAX)

    record_property("search", f"{found.states:,} states to {found.violation}: {case.rule}")
    assert found.violation not in (None, "crash"), f"{found.states} states, {found.message}"


@pytest.mark.parametrize("case", REDUNDANT, ids=lambda case: case.rule)
def test_a_rule_that_another_stands_behind_is_not_missed(case):
    with case.mutant.alive():
        found = search(case.scope, STATES_MAX)

    assert found.is_whole
    assert found.violation is None, "\n".join([found.message, *found.path])


@pytest.mark.parametrize("scope", {case.scope: None for case in CASES}, ids=str)
def test_with_all_rules_the_same_scopes_are_clean(scope):
    """So far that most mutants are seen before; test_small_scope.py searches whole scopes."""
    found = search(scope, CLEAN_MAX)

    assert found.violation is None, "\n".join([found.message, *found.path])
