"""Rounds of replication while brokers come and go: which replicas they create and fetch for."""

import pytest

from kafka_on_spark.controller.brokers.broker_changes import fence_broker, unfence_broker
from kafka_on_spark.ids import BrokerId
from tests.builders import disk, partition
from tests.unit.service.rounds import Rounds

THIRD = BrokerId(3)


def directories(rounds):
    return rounds.metadata.catch_up().partition(rounds.keys[0]).directories


def test_a_replica_is_recorded_as_created_once_its_creation_succeeds():
    unmade = partition("1 2 3", unmade="3").directories
    rounds = Rounds(isr="1 2", directories=unmade)
    rounds.append(0, "a")
    rounds.roots["memory://3"].is_offline = True

    rounds.run()
    assert directories(rounds) == (disk(1), disk(2), None)

    rounds.roots["memory://3"].is_offline = False
    rounds.run()
    assert directories(rounds) == (disk(1), disk(2), disk(3))


def test_a_broker_that_was_fenced_is_fetched_to_at_once_when_it_is_back():
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.roots["memory://3"].is_offline = True
    rounds.run()
    rounds.run()
    assert (0, 3) not in rounds.fetched()

    rounds.submit(fence_broker(rounds.metadata.image, THIRD, "it is away").records)
    rounds.run()
    rounds.roots["memory://3"].is_offline = False
    rounds.submit(unfence_broker(rounds.metadata.image, THIRD, "it is back").records)
    rounds.run()

    assert (0, 3) in rounds.fetched()


def test_a_leader_that_was_never_created_has_nothing_to_fetch_from():
    rounds = Rounds(directories=partition("1 2 3", unmade="1 2 3").directories, isr="1")
    rounds.roots["memory://1"].is_offline = True

    rounds.run(is_sweep=True)

    assert rounds.orders == []


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


def test_a_lost_replica_is_made_anew_by_the_next_round():
    rounds = Rounds(isr="1 2", directories=partition("1 2 3", lost="3").directories)

    rounds.run()

    now = rounds.metadata.image.partition(rounds.keys[0])
    assert (now.replica_uuids[2], now.directories[2]) == ("another", disk(3))
