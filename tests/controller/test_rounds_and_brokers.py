"""Rounds of replication while brokers come and go: which replicas they create and fetch for."""

import pytest

from tests.controller.rounds import Rounds


@pytest.mark.parametrize("is_sweep", [True, False], ids=["an inspection", "a copy"])
def test_inspections_run_by_partition_and_copies_all_at_once(is_sweep):
    rounds = Rounds(2)
    for number in (0, 1):
        rounds.append(number, "a")
    run_fetches, calls = rounds._run_fetches, []

    def noted(orders):
        calls.append(sorted({each.key.partition for each in orders}))
        return run_fetches(orders)

    rounds._run_fetches = noted
    rounds.run(is_sweep=is_sweep)

    assert calls[0] == ([0] if is_sweep else [0, 1])


def test_a_round_says_how_large_its_slice_was_and_a_sweep_has_none():
    rounds = Rounds(2)

    assert rounds.run().slice_count == 2
    assert rounds.run(is_sweep=True).slice_count == 0


def test_a_round_that_finds_nothing_submits_nothing():
    """Each submission takes the commit lock and reads the log again."""
    rounds = Rounds(2)
    rounds.run()
    submit, submitted = rounds.metadata.submit, []
    rounds.metadata.submit = lambda decide, **given: submitted.append(1) or submit(decide, **given)

    report = rounds.run()

    assert (len(submitted), report.is_caught_up) == (0, True)
