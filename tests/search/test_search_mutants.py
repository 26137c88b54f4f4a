"""A rule of the protocol that is switched off is seen to be missing: the search is not blind."""

import random
from collections import deque
from dataclasses import replace

import pytest

from tests.search.mutants import BEHIND_CHAINS, BOTH, CASES, NOBODY, TWICE
from tests.search.scope import Scope
from tests.search.search import Search, search
from tests.search.states import State
from tests.search.test_small_scope import APPENDS, SCOPES
from tests.search.world import Found

STATES_MAX = 400_000
STRAY_MAX = 25_000
CLEAN_MAX = 3_000

PAIRS = [
    pytest.param(pair, marks=[pytest.mark.long] * (pair.case.scope == TWICE))
    for pair in BEHIND_CHAINS
]

WHOLE = {
    replace(APPENDS, has_late_appends=False),
    *(param.values[0] for param in SCOPES if not param.marks),
}
"""Scopes that test_small_scope.py searches whole by default, if need be as a part of another."""


def is_searched_whole(scope: Scope) -> bool:
    """Return whether test_small_scope.py visits all states of a scope: without late appends they are
    some of those with them."""
    return bool(WHOLE & {scope, replace(scope, has_late_appends=True)})


SCOPES_OF_CASES = list(dict.fromkeys(case.scope for case in CASES))
WHOLE_OF_CASES = [each for each in SCOPES_OF_CASES if is_searched_whole(each)]
IN_PART = [each for each in SCOPES_OF_CASES if not is_searched_whole(each)]

STRAYED = (BOTH, NOBODY, TWICE)
"""Scopes whose violations are many steps away, and to which there are many ways: after two elections."""


class Straying(Search):
    """The search in an order at random, which comes early to what is far away."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._rng = random.Random(0)

    def _next(self, queue: deque[tuple[State, int]]) -> tuple[State, int]:
        at = self._rng.randrange(len(queue))
        queue[at], queue[-1] = queue[-1], queue[at]
        return queue.pop()


def first_violation(scope: Scope) -> Found:
    """Return the search that has found one, or all that there is; what is behind thousands of states,
    or hundreds of thousands, is strayed for first."""
    found = Straying(scope).run(STRAY_MAX) if scope in STRAYED else Found()
    return search(scope, STATES_MAX) if found.violation in (None, "crash") else found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_missing_rule_is_seen(case):
    with case.mutant.alive():
        found = first_violation(case.scope)

    assert found.violation not in (None, "crash"), f"{found.states} states, {found.message}"
    assert case.scope in WHOLE_OF_CASES or found.states <= CLEAN_MAX


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.case.rule)
def test_a_rule_is_seen_to_be_missing_once_those_behind_it_are_gone(pair):
    with pair.together.alive():
        found = first_violation(pair.case.scope)

    assert found.violation not in (None, "crash"), f"{found.states} states, {found.message}"


@pytest.mark.parametrize("scope", IN_PART, ids=str)
def test_with_all_rules_the_same_scopes_are_clean(scope):
    """So far that their mutants are seen before; test_small_scope.py searches the others, whole."""
    found = Straying(scope).run(CLEAN_MAX) if scope in STRAYED else search(scope, CLEAN_MAX)

    assert found.violation is None, "\n".join([found.message, *found.path])


@pytest.mark.long
@pytest.mark.parametrize("scope", STRAYED, ids=str)
def test_with_all_rules_strayed_scopes_are_clean_as_far_as_a_mutant_may_be(scope):
    found = Straying(scope).run(STRAY_MAX)

    assert found.violation is None, "\n".join([found.message, *found.path])
