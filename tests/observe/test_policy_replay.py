"""A recorded history decided again: nothing differs under its own settings, and under others what
must."""

import dataclasses

import pytest

from kafka_on_spark.base.errors import InvalidConfigError
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import PartitionChangeRecord
from kafka_on_spark.observe.policy_replay import MIN_ISR, UNCLEAN, replay
from tests.builders import TOPIC, TOPIC_ID, brokers
from tests.controller.lives import life


def moved_and_back():
    return life("1 2 3", "2 3 1").append(5).at(10).fail(1).at(12).append(3).at(20).come_back(1)


def last_in_sync_dies():
    """Broker 1 is left alone, goes on to offset 9, and dies; 2 was in sync up to 4."""
    begun = life("1 2").append(4).at(5).isr("1", "broker 2: lags").at(6).append(5)
    return begun.at(10).fail(1).at(40).come_back(1).at(42).isr("1 2", "caught up").append(1)


def unclean_election():
    return last_in_sync_dies_then_unclean().at(50).come_back(1).isr("1 2", "caught up")


def last_in_sync_dies_then_unclean():
    begun = life("1 2", unclean_leader_election_enable="true").append(4)
    begun.at(5).isr("1", "broker 2: lags").append(5)
    begun.at(10).commit()
    return begun.fail(1).at(11).recover((2, 6)).at(12).append(2)


def everybody_dies():
    return life("1 2 3").append(4).at(10).fail(1, 2, 3).at(20).come_back(3).at(21).come_back(1, 2)


def drained():
    return life("1 2 3", "2 3 1").append(4).at(5).drain(1).at(9).fail(2)


def moved_elsewhere():
    """A reassignment from 1 2 to 2 3, while broker 2 dies."""
    begun = life("1 2", ids="1 2 3").append(4).at(5)
    target = PartitionChange(
        replicas=brokers("2 3 1"),
        replica_uuids=("uuid2", "uuid3", "uuid1"),
        directories=("disk2", "disk3", "disk1"),
        adding_replicas=brokers("3"),
        removing_replicas=brokers("1"),
    )
    begun.change(target, "reassigned").at(8).isr("1 2 3", "caught up").at(9).fail(2)
    ends = PartitionChange(
        replicas=brokers("2 3"),
        replica_uuids=("uuid2", "uuid3"),
        directories=("disk2", "disk3"),
        adding_replicas=(),
        removing_replicas=(),
        isr=frozenset(brokers("3")),
        leader=3,
    )
    return begun.at(11).change(ends, "done").at(20).come_back(2)


def deleted():
    return life("1 2").append(4).at(10).fail(1).at(11).delete().at(20).come_back(1)


LIVES = [
    moved_and_back,
    last_in_sync_dies,
    unclean_election,
    everybody_dies,
    drained,
    moved_elsewhere,
    deleted,
]


@pytest.mark.parametrize("lived", LIVES, ids=lambda each: each.__name__)
def test_under_its_own_settings_a_history_replays_as_recorded(lived):
    batches = lived().batches

    found = replay(batches, {})

    assert found.differences == ()
    assert found.instead == found.recorded


def test_with_unclean_elections_a_partition_keeps_a_leader_and_its_possible_loss_is_counted():
    found = replay(last_in_sync_dies().batches, {UNCLEAN: "true"})

    [first, *_] = found.differences
    assert (first.recorded, first.instead, first.seconds) == (None, 2, 30)
    assert "unclean election, offsets 4 to 8 are lost" in first.cause
    assert (found.recorded.unclean_elections, found.instead.unclean_elections) == (0, 1)
    assert (found.recorded.lost_records_max, found.instead.lost_records_max) == (0, 5)
    assert (found.recorded.offline_seconds, found.instead.offline_seconds) == (30, 0)


def test_without_unclean_elections_nothing_is_lost_and_the_partition_waits():
    found = replay(unclean_election().batches, {UNCLEAN: "false"})

    [first, *_] = found.differences
    assert (first.recorded, first.instead, first.seconds) == (2, None, 39)
    assert (found.recorded.lost_records_max, found.instead.lost_records_max) == (3, 0)
    assert found.instead.offline_seconds == found.recorded.offline_seconds + 39
    assert found.instead.refused_records == 2


def test_under_a_higher_minimum_what_was_committed_with_too_few_in_sync_is_refused():
    found = replay(moved_and_back().isr("2 3").at(30).append(7, 1).batches, {MIN_ISR: "3"})

    # 3 records while broker 1 was away; then partition 1 lacks it still.
    assert found.instead.refused_records == 3 + 7
    assert found.differences == ()


def test_under_a_higher_minimum_a_replica_that_left_the_isr_below_it_may_still_lead():
    begun = life("1 2 3").append(4).at(5).isr("1 2").at(6).isr("1").at(10).fail(1)

    found = replay(begun.at(40).come_back(1).batches, {MIN_ISR: "2"})

    [difference] = found.differences
    assert (difference.recorded, difference.instead, difference.seconds) == (None, 2, 30)
    assert (found.instead.unclean_elections, found.instead.lost_records_max) == (0, 0)


def test_a_topics_own_setting_gives_way_to_the_policy():
    begun = life("1 2").set(MIN_ISR, "1").append(4).at(5).isr("1").at(6).append(5)

    assert replay(begun.batches, {}).instead.refused_records == 0
    assert replay(begun.batches, {MIN_ISR: "2"}).instead.refused_records == 5


def test_differences_are_said_in_words_with_times_and_figures():
    lines = str(replay(last_in_sync_dies().batches, {UNCLEAN: True})).splitlines()

    assert lines[0].startswith("Under unclean.leader.election.enable=true")
    assert lines[1].startswith("  0.0 s without a leader")
    assert (
        "    orders-0, 12:00:10 to 12:00:40 UTC (30.0 s): nobody led; broker 2 would have"
        " (broker 2: unclean election, offsets 4 to 8 are lost)"
    ) in lines


def test_a_partition_that_one_decision_creates_and_changes_replays_as_recorded():
    begun = life("1 2")
    created, changed = begun.batches[-1].records[-1], PartitionChange(isr=frozenset({1}))
    leader_epoch, partition_epoch = created.registration.epochs_after(changed)
    change = PartitionChangeRecord(
        topic_id=TOPIC_ID,
        partition=1,
        change=changed,
        topic=TOPIC,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )
    begun.commit(dataclasses.replace(created, partition=1), change).append(3, 1).at(9).fail(1)

    found = replay(begun.batches, {})

    assert begun.partition(1).leader is None
    assert found.differences == ()
    assert found.instead == found.recorded


# fmt: off
REFUSED = [
    pytest.param({"replica.lag.time.max.ms": 1}, "can't decide the history again under another", id="the log does not say it"),
    pytest.param({"min.insync.replica": 1},      "did you mean 'min.insync.replicas'",           id="unknown"),
    pytest.param({"min.insync.replicas": 0},     "can't be '0'",                                 id="not allowed"),
]
# fmt: on


@pytest.mark.parametrize("policy, sentence", REFUSED)
def test_a_setting_whose_effect_the_log_can_t_tell_is_refused(policy, sentence):
    with pytest.raises(InvalidConfigError, match=sentence):
        replay(moved_and_back().batches, policy)
