"""Each of the quorum's rules, switched off in its driver, is seen to be missing."""

import pytest

from tests.simulation.quorum import quorum_mutants, voter_change_mutants
from tests.simulation.quorum.quorum_mutants import MUTANTS
from tests.simulation.quorum.quorum_simulation import simulate_quorum
from tests.simulation.quorum.voter_change_mutants import VOTER_CHANGE_MUTANTS

SEEDS_MAX = 60

FIRST_SEEDS = {
    quorum_mutants.emptied_root_keeps_its_identity: 4,
    quorum_mutants.voter_follows_uncut: 32,
    quorum_mutants.vote_is_for_any_log: 10,
    quorum_mutants.denial_is_the_roots: 370,
    voter_change_mutants.voter_is_removed_whoever_answers: 2,
    voter_change_mutants.two_voters_change_at_once: 1,
}
"""Where the search begins for those that the first seeds do not show: with one that does today."""

ALL = MUTANTS | VOTER_CHANGE_MUTANTS


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.__name__)
def test_a_rule_of_the_quorum_that_is_left_out_is_told(mutant, monkeypatch):
    plan, told = ALL[mutant]
    first = FIRST_SEEDS.get(mutant, 0)
    mutant(monkeypatch)

    outcomes = (simulate_quorum(plan(seed)) for seed in range(first, first + SEEDS_MAX))
    found = next((each for each in outcomes if each.violation is not None), None)

    assert found is not None, mutant.__doc__
    assert found.violation in told, found.message
