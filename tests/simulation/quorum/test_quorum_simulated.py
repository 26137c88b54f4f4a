"""A quorum of voters' tables under faults: Q1 to Q10 hold after every step of every seed, and `fsck`
finds nothing in what is left."""

from collections import Counter

import pytest

from tests.simulation.quorum.quorum_audit import audit
from tests.simulation.quorum.quorum_plan import quorum_plan_of
from tests.simulation.quorum.quorum_simulation import QuorumSimulation, simulate_quorum

SEEDS = 8
SEEDS_MORE = 16
SEEDS_LONG = 600

SEEN = (
    *("voters added", "voters removed", "transfers"),
    *("leaderships", "reads", "decisions", "conflicts", "unknown outcomes"),
    *("away", "read-only", "frozen", "power cut", "restored", "kill", "freeze", "cut off"),
    *("denied", "RootAccessDeniedError"),
    *("failed", "lost", "delayed", "unsaid", "hung", "slow"),
)
"""What many seeds must have met, so that none of it is held in vain."""


def run(seeds):
    seen = Counter()
    for seed in seeds:
        simulation = QuorumSimulation(quorum_plan_of(seed))
        outcome = simulation.run()
        assert outcome.violation is None, outcome.message
        assert audit(simulation.world) == [], f"seed={seed}"
        seen.update(outcome.seen)
    return seen


@pytest.mark.parametrize(
    "first, end", [(0, SEEDS), pytest.param(SEEDS, SEEDS_MORE, marks=pytest.mark.long)]
)
def test_some_seeds_hold_every_invariant_of_the_quorum_and_leave_nothing_for_fsck(first, end):
    seen = run(range(first, end))

    assert seen["decisions"] > end - first
    assert seen["leaderships"] > end - first


@pytest.mark.long
def test_many_seeds_hold_every_invariant_meet_every_danger_and_leave_nothing_for_fsck():
    seen = run(range(SEEDS_MORE, SEEDS_LONG))

    assert [name for name in (*SEEN, "emptied") if not seen[name]] == []


def test_the_same_seed_does_the_same():
    first, second = (simulate_quorum(quorum_plan_of(3)) for _ in range(2))

    assert (first.trace, first.seen) == (second.trace, second.seen)
