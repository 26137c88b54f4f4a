"""From a failing seed to a short script, which stands in a test and fails there too."""

from functools import cache
from itertools import count

import pytest

from kafka_on_spark.log import operations
from tests.simulation.faults.swarm_plans import plan_of
from tests.simulation.shrinking import as_text, from_text, replay, shrink
from tests.simulation.simulation import simulate

FIRST_SEED = 17
"""Where to look for a seed that fails without the rule: one that does so today, of few steps."""

RUNS_MAX = 40

SCRIPT = [
    ("run", "client1-0", ""),
    ("run", "client1-0", ""),
    ("run", "replicator1-0.task1", "stale"),
    ("event", "roll back", "2", "3"),
    ("run", "client1-0", "lost"),
]


def switch_off_dedup(patch):
    """Switch off the rule that an append is looked for before it is committed."""
    patch.setattr(operations, "find_append", lambda state, staged: None)


@cache
def failing_outcome():
    """Return what the first seed from there on does that fails without the rule."""
    with pytest.MonkeyPatch.context() as patch:
        switch_off_dedup(patch)
        return next(
            found for seed in count(FIRST_SEED) if (found := simulate(plan_of(seed))).violation
        )


def test_a_failing_seed_is_shrunk_to_a_script_that_fails_alike(monkeypatch):
    found = failing_outcome()
    switch_off_dedup(monkeypatch)

    script = shrink(found, runs_max=RUNS_MAX)

    again = replay(found.plan, as_text(script))
    assert again.violation == found.violation
    assert len(script) < len(found.script) / 2


def test_a_failing_script_is_harmless_once_the_rule_is_back():
    found = failing_outcome()

    assert simulate(found.plan, found.script).violation is None


def test_a_seed_that_does_not_fail_is_not_shrunk():
    found = simulate(plan_of(0))

    with pytest.raises(AssertionError, match="nothing failed"):
        shrink(found)


def test_a_script_is_a_literal():
    text = as_text(SCRIPT)

    assert text.splitlines() == [
        "client1-0 × 2",
        "replicator1-0.task1 | stale",
        "! roll back | 2 | 3",
        "client1-0 | lost",
    ]
    assert from_text(text) == SCRIPT


def test_a_script_that_names_absent_processes_changes_nothing():
    script = from_text("nobody × 3\n! kill | nobody-0\n! thaw | nobody-0\n! heal | 1")

    outcome = simulate(plan_of(0), script)

    assert outcome.violation is None
