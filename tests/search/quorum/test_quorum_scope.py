"""Every small history of a quorum, over the production's decisions.

The rules are left out one at a time in tests/simulation/quorum/quorum_mutants.py; that the model sees harm
is shown by voters that are restored from copies.
"""

from dataclasses import replace

import pytest

from tests.search.quorum.model import BrokenError, Scope, replay, search
from tests.search.quorum.rules import Rules

RULES = Rules()
"""The rules as they are; what they have decided is known to all tests."""

# fmt: off
SCOPES = [
    pytest.param(Scope(epochs=2, decisions=1),                          id="a process, two epochs"),
    pytest.param(Scope(epochs=1, decisions=1, processes=2),             id="two processes, an epoch"),
    pytest.param(Scope(epochs=1, decisions=1, wipes=1),                 id="a root is emptied"),
    pytest.param(Scope(epochs=1, decisions=1, has_reader=True),         id="a reader"),
]
LARGE = [
    pytest.param(Scope(epochs=3, decisions=0),                          id="a process, three epochs"),
    pytest.param(Scope(epochs=1, decisions=2, processes=2),             id="two processes, two decisions"),
]
# fmt: on


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("first_voters", [1, pytest.param(3, marks=pytest.mark.long)])
def test_every_small_scope_is_safe(scope, first_voters):
    """A voter that is the first to stand or to be emptied shows what any does."""
    found = search(RULES, replace(scope, first_voters=first_voters))

    assert found.broken is None, found.path
    assert found.committed > 1
    assert found.states > 500
    assert bool(found.reads) == scope.has_reader


@pytest.mark.long
@pytest.mark.parametrize("scope", LARGE)
def test_every_larger_scope_is_safe(scope):
    found = search(RULES, scope, states_max=20_000_000)

    assert found.broken is None, found.path
    assert found.committed > 2


# What takes three epochs and more is far away for a search: these histories are told step by step.
TWO_LEADERS = [
    *("0: stand 0 e1", "0: vote 1 for 0", "0: lead 0"),
    *("1: stand 1 e2", "1: vote 2 for 1", "1: lead 1"),
]
# A batch of epoch 1 comes to a majority in epoch 3, whose leader's own batch does not.
SPREAD = ["1: stand 0 e3", "1: vote 2 for 0", "1: lead 0", "1: adopt 2", "1: fetch 2 1"]
NEXT = ["1: stand 1 e4", "1: vote 2 for 1"]
FAR = Scope(epochs=4, decisions=0, processes=2)


def test_figure_8_a_batch_of_an_older_epoch_is_not_committed_by_count():
    history = [*TWO_LEADERS, *SPREAD]

    assert "0:1" not in replay(RULES, FAR, history).committed
    replay(RULES, FAR, [*history, *NEXT, "1: lead 1"])


def test_a_voter_counts_in_the_leaders_epoch_and_under_its_mark_only():
    """The leader of epoch 1 sees its batch on a voter that has it from the leader of epoch 3."""
    history = [*TWO_LEADERS, *SPREAD]

    with pytest.raises(KeyError, match="see 2"):
        replay(RULES, FAR, [*history, "0: see 2"])


def test_a_voter_that_has_voted_in_an_epoch_is_cut_all_the_same():
    voted = [*TWO_LEADERS, "1: stand 1 e3", "1: vote 0 for 1", "1: lead 1", "1: adopt 0"]

    replay(RULES, FAR, [*voted, "1: fetch 0 None"])


# What can't be survived: a voter that is restored from a copy has forgotten votes and batches.
COPY_OF_A_VOTER = [
    *("0: stand 0 e1", "0: vote 1 for 0", "0: lead 0", "0: adopt 1", "0: fetch 1 None"),
    *("roll back 1", "1: stand 2 e2", "1: vote 1 for 2"),
]


def test_a_voter_that_is_restored_from_a_copy_may_make_two_leaders_of_an_epoch():
    found = search(RULES, Scope(epochs=1, decisions=0, rollbacks=1))

    assert "epoch 1 has two leaders" in found.broken
    assert any(step.startswith("roll back") for step in found.path)


def test_a_voter_that_is_restored_from_a_copy_may_elect_a_leader_without_what_is_committed():
    scope = replace(FAR, rollbacks=1)

    assert "0:1" in replay(RULES, scope, COPY_OF_A_VOTER).committed
    with pytest.raises(BrokenError, match="lacks 0:1"):
        replay(RULES, scope, [*COPY_OF_A_VOTER, "1: lead 2"])
    with pytest.raises(KeyError, match="vote 1 for 2"):
        replay(RULES, scope, [step for step in COPY_OF_A_VOTER if step != "roll back 1"])
