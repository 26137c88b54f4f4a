"""Partitions that are added to a topic: what goes where, and that a retry still appends once."""

import pytest

from kafka_on_spark.base.errors import (
    NotLeaderOrFollowerError,
)
from tests.cluster.disks import die_after_one, values_of

KEYS = [b"key-%d" % number for number in range(60)]
GIVEN = [(key, b"value-%d" % number) for number, key in enumerate(KEYS)]
EACH_ONCE = sorted(value for _, value in GIVEN)


@pytest.fixture
def orders(disks):
    disks.cluster.create_topic("orders", partitions=3, replication_factor=3)
    return disks


@pytest.mark.parametrize("is_other_process", [False, True], ids=["same process", "another"])
def test_a_retry_on_an_expanded_topic_is_a_duplicate(orders, is_other_process):
    first = orders.cluster.append("orders", GIVEN, producer_id="p", sequence=3)
    orders.cluster.add_partitions("orders", to=7)
    cluster = orders.open() if is_other_process else orders.cluster

    again = cluster.append("orders", GIVEN, producer_id="p", sequence=3)
    following = cluster.append("orders", GIVEN, producer_id="p", sequence=4)

    assert again.is_duplicate
    assert {n: each.base_offset for n, each in again.partitions.items()} == {
        n: each.base_offset for n, each in first.partitions.items()
    }
    assert set(following.partitions) == set(range(7))
    assert sorted(values_of(cluster, "orders")) == sorted(EACH_ONCE * 2)


def test_a_try_that_reached_one_partition_is_finished_as_it_was_split(orders):
    older = orders.cluster
    die_after_one(older, "orders", GIVEN, 1, producer_id="p", sequence=0)
    orders.cluster.add_partitions("orders", to=7)

    result = orders.open().append("orders", GIVEN, producer_id="p", sequence=0)

    assert set(result.partitions) == {0, 1, 2}
    assert sorted(values_of(orders.cluster, "orders")) == EACH_ONCE


def test_an_append_is_no_first_try_while_a_partition_can_not_be_asked(disks):
    cluster = disks.cluster
    cluster.create_topic("orders", replica_assignment={0: [1]})
    cluster.append("orders", GIVEN, producer_id="p", sequence=0)
    cluster.add_partitions("orders", to=2, replica_assignment={1: [2]})
    disks.take_away(1)
    cluster.run_controller()

    with pytest.raises(NotLeaderOrFollowerError, match="has no leader: bring its brokers back"):
        disks.open().append("orders", GIVEN, producer_id="p", sequence=0, acks=1, timeout_ms=500)
