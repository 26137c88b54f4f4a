"""A rule of a table's log that is taken out is seen to be missing: the search is not blind."""

import pytest

from tests.search.logs.log_mutants import LOG_MUTANTS
from tests.search.logs.log_search import search_log


@pytest.mark.parametrize("mutant", LOG_MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_missing_rule_of_a_log_is_seen(mutant):
    with mutant.alive():
        found = search_log(mutant.scope)

    assert found.violation == mutant.invariant, f"{found.states} states, {found.message}"
