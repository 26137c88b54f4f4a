"""Replicas move step by step: each step is one commit, and none loses anything."""

import pytest

from kafka_on_spark.controller.moves.reassignment import (
    Reassignment,
    ReassignmentStatus,
    cancel_reassignments,
    list_reassignments,
    start_reassignments,
    status_of,
)
from kafka_on_spark.controller.moves.reassignment_checks import check_throttle
from kafka_on_spark.controller.partitions.isr import may_join
from kafka_on_spark.errors import (
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    NoReassignmentInProgressError,
    ReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import PartitionKey
from tests.builders import KEY, TOPIC, TOPIC_ID, image_of, partition, report, seen
from tests.unit.controller.moves.move_steps import start

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
