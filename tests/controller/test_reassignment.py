"""Replicas move step by step: each step is one commit, and none loses anything."""

from itertools import count, permutations, product

import pytest

from kafka_on_spark.base.errors import (
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    NoReassignmentInProgressError,
    ReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.brokers import fence_broker, unfence_broker
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.isr import may_join
from kafka_on_spark.controller.reassignment import (
    Reassignment,
    ReassignmentStatus,
    advance_reassignments,
    cancel_reassignments,
    check_throttle,
    list_reassignments,
    start_of_move,
    start_reassignments,
    status_of,
)
from kafka_on_spark.metadata.image import ControllerResult
from tests.builders import KEY, TOPIC, TOPIC_ID, brokers, image_of, partition, report, seen, subsets
from tests.controller.move_steps import changed, finished, in_sync, only, replay, start

SIX = "1 2 3 4 5 6"


def test_replica_that_goes_stays_out_once_the_target_is_in_sync():
    left = partition("4 1", isr="4", leader=4, adding="4", removing="1")
    waiting = partition("4 5 1", isr="4", leader=4, adding="4 5", removing="1")

    for under_way, expected in [(left, False), (waiting, True)]:
        image = image_of(under_way, ids=SIX)
        assert may_join(image, under_way, report(seen(4), seen(1)), seen(1)) is expected


MOVING = partition("2 4 1", isr="1 2", leader=1, adding="4", removing="1")


def test_one_reassignment_at_a_time_and_none_to_cancel_where_there_is_none():
    image = image_of(MOVING, partition("1 2"), ids=SIX)

    with pytest.raises(
        ReassignmentInProgressError, match=r"orders-0 is being reassigned to \[2, 4\]"
    ):
        start(image, 5, 6)
    with pytest.raises(NoReassignmentInProgressError, match="orders-1 is not"):
        cancel_reassignments(image, [PartitionKey(TOPIC_ID, 1)], cause="")
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 7"):
        cancel_reassignments(image, [PartitionKey(TOPIC_ID, 7)], cause="")


def test_cancelling_is_refused_where_nobody_in_sync_would_be_left():
    image = image_of(partition("4 1", isr="4", leader=4, adding="4", removing="1"), ids=SIX)

    with pytest.raises(InvalidReplicaAssignmentError, match="records would be lost"):
        cancel_reassignments(image, [KEY], cause="")


def test_listed_and_verified():
    image = image_of(MOVING, partition("1 2"), ids=SIX)
    second, gone = PartitionKey(TOPIC_ID, 1), PartitionKey(TOPIC_ID, 7)

    [listed] = list_reassignments(image)
    targets = {KEY: [2, 4], second: [1, 2], gone: [1]}
    status = {key: status_of(image.partition(key), target) for key, target in targets.items()}

    assert listed == Reassignment(
        key=KEY, name=(TOPIC, 0), target=(2, 4), adding=(4,), removing=(1,), waits_for=(4,)
    )
    assert status == {
        KEY: ReassignmentStatus.IN_PROGRESS,
        second: ReassignmentStatus.COMPLETE,
        gone: ReassignmentStatus.NOT_THERE,
    }
    assert status_of(image.partition(second), [2, 1]) is ReassignmentStatus.ELSEWHERE


# fmt: off
RATES = [  # target   rate
    pytest.param([1, 2, 3], 700,  id="a replica comes"),
    pytest.param([1],       700,  id="a replica goes"),
    pytest.param([1, 3],    700,  id="one comes and one goes"),
    pytest.param([2, 1],    None, id="nothing is copied where the order changes alone"),
]

# fmt: on


@pytest.mark.parametrize("target, rate", RATES)
def test_a_move_keeps_to_its_rate_while_it_is_under_way(target, rate):
    image = image_of(partition("1 2"))

    result = start_reassignments(
        image, {KEY: target}, new_uuid=lambda: "new", cause="", throttle_bytes_per_s=700
    )

    [record] = result.records
    assert image.partition(KEY).merge(record.change).throttle_bytes_per_s == rate


@pytest.mark.parametrize("rate", [0, -1, True, 1.5, "7"])
def test_a_rate_of_a_move_is_a_whole_number_from_1_on(rate):
    with pytest.raises(InvalidRequestError, match="give a whole number of at least 1"):
        check_throttle(rate)


def row(image):
    """Return a step of a reassignment."""
    one = only(image)
    lists = (one.replicas, one.adding_replicas, one.removing_replicas, sorted(one.isr))
    replicas, adding, removing, isr = (" ".join(map(str, each)) for each in lists)
    return replicas, adding, removing, one.leader, isr


def test_rows_of_the_table():
    image = image_of(partition("1 2 3"), ids=SIX)
    assert row(image) == ("1 2 3", "", "", 1, "1 2 3")

    image = replay(image, start(image, 4, 5, 6))
    assert row(image) == ("4 5 6 1 2 3", "4 5 6", "1 2 3", 1, "1 2 3")  # A
    assert advance_reassignments(image).records == []

    image = in_sync(image, "1 2 3 4 5")
    assert advance_reassignments(image).records == []

    image = in_sync(image, SIX)
    assert row(image) == ("4 5 6 1 2 3", "4 5 6", "1 2 3", 1, SIX)  # B

    image = replay(image, advance_reassignments(image))
    assert row(image) == ("4 5 6 1 2 3", "4 5 6", "1 2 3", 4, SIX)  # B3
    assert only(image).leader_epoch == 6

    image = replay(image, advance_reassignments(image))
    assert row(image) == ("4 5 6 1 2 3", "4 5 6", "1 2 3", 4, "4 5 6")  # B4
    assert only(image).leader_epoch == 6

    image = replay(image, advance_reassignments(image))
    assert row(image) == ("4 5 6", "", "", 4, "4 5 6")  # B6
    assert only(image).leader_epoch == 7  # who holds the old list of replicas is fenced
    assert advance_reassignments(image).records == []


# fmt: off
WAITS = [  # under way, and what holds it up
    pytest.param(partition("4 1 2", isr="1 2", leader=1, adding="4", removing="2"),             "",    id="who-comes-is-not-in-sync"),
    pytest.param(partition("4 1 2", isr="2 4", leader=2, adding="4", removing="2"),             "",    id="who-stays-is-not-in-sync"),
    pytest.param(partition("4 1", leader=1, adding="4", removing="1"),                          "4",   id="target-may-not-lead-now"),
    pytest.param(partition("1 2 3", isr="1", leader=None, lost="1", removing="2 3"),            "",    id="target-is-a-lost-replica"),
    pytest.param(partition("1 2", isr="1", leader=None, removing="2"),                          "1",   id="target-has-failed"),
]

# fmt: on


@pytest.mark.parametrize("under_way, fenced", WAITS)
def test_waits(under_way, fenced):
    assert advance_reassignments(image_of(under_way, ids=SIX, fenced=fenced)).records == []


# fmt: off
REFUSED = [
    pytest.param((),            InvalidReplicaAssignmentError, "name at least one",              id="empty"),
    pytest.param((1, 1),        InvalidReplicaAssignmentError, "each once",                      id="duplicate"),
    pytest.param((1, 9),        InvalidReplicaAssignmentError, r"\[9\], which are not registered", id="unknown"),
    pytest.param((1, 5),        InvalidReplicaAssignmentError, "5 is fenced",                    id="fenced"),
    pytest.param((1, 6),        InvalidReplicaAssignmentError, "6 is draining",                  id="draining"),
]

# fmt: on


@pytest.mark.parametrize("target, error, words", REFUSED)
def test_target_is_refused_in_a_sentence(target, error, words):
    image = image_of(partition("1 2"), ids=SIX, fenced="5", draining="6")

    with pytest.raises(error, match=words):
        start(image, *target)


# fmt: off
REPLACED = [  # another target                replicas       adding   removing    at the end
    pytest.param((5, 6),                      "5 6 1 2 4",   "5 6",   "1 2 4",    "5 6",     id="elsewhere"),
    pytest.param((4, 2),                      "4 2 1",       "",      "1",        "4 2",     id="another-order"),
    pytest.param((1, 2),                      "1 2 4",       "",      "4",        "1 2",     id="back"),
]

# fmt: on


@pytest.mark.parametrize("target, replicas, adding, removing, last", REPLACED)
def test_replaced_when_told_to(target, replicas, adding, removing, last):
    image = image_of(MOVING, ids=SIX)

    change = start_of_move(only(image), target, count().__next__)
    image = replay(image, ControllerResult([change_record(image, KEY, only(image), change, "")], 0))

    assert row(image)[:3] == (replicas, adding, removing)
    everyone = frozenset(only(image).replicas)
    assert row(finished(changed(image, isr=everyone)))[0] == last


def check_register(one):
    """Check what must hold of a register at any time."""
    assert one.isr, one
    assert set(one.adding_replicas).isdisjoint(one.removing_replicas)
    assert one.target_replicas
    assert len(set(one.replica_uuids)) == len(one.replicas)


def test_every_small_move_with_every_way_of_catching_up():
    """From and to all assignments of three brokers, in all orders in which replicas catch up."""
    moves = 0
    assignments = [each for size in (1, 2, 3) for each in permutations(brokers("1 2 3"), size)]
    for before, target in product(assignments, assignments):
        started = image_of(partition(" ".join(map(str, before))), ids="1 2 3")
        started = replay(started, start(started, *target))
        for order in permutations(only(started).adding_replicas):
            image = started
            for each in order:
                assert only(finished(image)) == only(image)
                image = changed(image, isr=only(image).isr | {each})
                check_register(only(image))
            # Whichever process goes on at whichever row, it ends the same.
            image = finished(image)
            check_register(only(image))
            one = only(image)
            assert (one.replicas, one.isr) == (target, set(target))
            assert one.leader in target
            assert not one.is_reassigning
            moves += 1
    assert moves == 15 * 15 + EXTRA


# Where two brokers come, there are two orders: from one of the three to three (6 orders each), or
# to the other two (2 orders each).
EXTRA = 3 * (6 + 2)


def test_every_row_survives_every_failure_and_cancels_or_ends():
    """At each row any broker fails and returns; then the move ends, or is cancelled."""
    checked = 0
    for catching_up in subsets(brokers("3 4")):
        image = image_of(partition("1 2"), ids="1 2 3 4")
        image = replay(image, start(image, 3, 4))
        image = changed(image, isr=only(image).isr | catching_up)
        while True:
            for failing in brokers("1 2 3 4"):
                failed = replay(image, fence_broker(image, failing, "fails"))
                failed = finished(failed)
                check_register(only(failed))
                back = finished(replay(failed, unfence_broker(failed, failing, "returns")))
                every = frozenset(only(back).replicas)
                ended = finished(changed(back, isr=every))
                assert only(ended).replicas == (3, 4)
                if only(failed).is_reassigning and only(failed).isr & {1, 2}:
                    cancelled = replay(failed, cancel_reassignments(failed, [KEY], cause="c"))
                    check_register(only(cancelled))
                    assert only(cancelled).replicas == (1, 2)
                checked += 1
            result = advance_reassignments(image)
            if not result.records:
                break
            image = replay(image, result)
    assert checked == 4 * (3 + 4)
