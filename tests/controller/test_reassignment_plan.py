"""What a planned reassignment says: which partitions move, how much, and how long it takes."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import InvalidReplicaAssignmentError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.reassignment_plan import (
    COPY_BYTES_PER_S,
    partitions_of,
    plan_reassignment,
)
from tests.builders import TOPIC_ID, image_of, image_of_topics, partition

KEYS = [PartitionKey(TOPIC_ID, number) for number in (0, 1)]
SIZES = {KEYS[0]: 700, KEYS[1]: None}


def planned(*partitions, brokers=(3, 4), **arguments):
    image = image_of(*partitions, ids="1 2 3 4", draining="2")
    keys = KEYS[: len(partitions)]
    return plan_reassignment(image, keys, brokers=brokers, sizes=SIZES, **arguments)


def test_a_plan_counts_the_bytes_of_each_replica_that_comes():
    plan = planned(partition("1 3"), partition("1 2"))

    assert [each.bytes_moved for each in plan.moves] == [700, 0]
    assert plan.bytes_moved == 700
    assert {each: set(numbers) for each, numbers in plan.targets.items()} == {
        ("orders", 0): {3, 4},
        ("orders", 1): {3, 4},
    }
    assert [str(each) for each in plan.unmeasured] == ["orders-1"]


def test_a_replica_that_moves_already_counts_where_it_goes_and_is_left_alone():
    moving = partition("1 3", adding="3", removing="1")

    assert planned(moving, brokers=(4,)).moves == ()


# fmt: off
RATES = [  # throttle  cluster's  bytes a second    is known
    pytest.param(None, None,      COPY_BYTES_PER_S, False, id="nothing says so"),
    pytest.param(350,  None,      350,              True,  id="a throttle"),
    pytest.param(None, "500",     500,              True,  id="a setting"),
    pytest.param(350,  "500",     350,              True,  id="the lower of two"),
]
# fmt: on


@pytest.mark.parametrize("throttle, setting, rate, is_known", RATES)
def test_the_time_is_reckoned_by_what_limits_it(throttle, setting, rate, is_known):
    image = image_of(partition("1"), ids="1 3")
    if setting is not None:
        image = replace(image, configs={"follower.replication.throttled.rate": setting})

    plan = plan_reassignment(
        image, KEYS[:1], brokers=[3], sizes=SIZES, throttle_bytes_per_s=throttle
    )

    assert (plan.bytes_per_s, plan.is_rate_known) == (rate, is_known)
    assert plan.estimated_seconds == 700 / rate
    assert COPY_BYTES_PER_S == 100 * 1024 * 1024


@pytest.mark.parametrize("brokers", [(), (2,), (3, 9)])
def test_replicas_are_planned_on_active_brokers_alone(brokers):
    with pytest.raises(
        InvalidReplicaAssignmentError, match=r"name active ones, some of \[1, 3, 4\]"
    ):
        planned(partition("1"), brokers=brokers)


@pytest.mark.parametrize(
    "topics, expected",
    [
        (None, ["a-0", "b-0", "b-1"]),
        (["b"], ["b-0", "b-1"]),
        (["b", "a", "b"], ["b-0", "b-1", "a-0"]),
        ([], []),
    ],
)
def test_a_plan_is_for_topics_or_for_all(topics, expected):
    image = image_of_topics({"a": [partition("1")], "b": [partition("1"), partition("1")]})

    assert [str(image.name_of(each)) for each in partitions_of(image, topics)] == expected
