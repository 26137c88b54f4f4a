"""Partitions that are added to a topic: what goes where, and that a retry still appends once."""

import pyarrow as pa
import pytest

from kafka_on_spark.base.errors import (
    InvalidPartitionsError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from kafka_on_spark.log.hashing import partitions_of_keys
from kafka_on_spark.produce.append import AppendRequest, append_staged, plan_append
from kafka_on_spark.produce.records import batches_of
from kafka_on_spark.produce.staging import stage_records
from tests.cluster.disks import die_after_one, isr_of, partition_of, values_of

KEYS = [b"key-%d" % number for number in range(60)]
GIVEN = [(key, b"value-%d" % number) for number, key in enumerate(KEYS)]
EACH_ONCE = sorted(value for _, value in GIVEN)
# Of a key that goes to partition 1 of two.
MOVING = [(b"key-%d" % partitions_of_keys(pa.array(KEYS), 2).tolist().index(1), b"moved")]


@pytest.fixture
def orders(disks):
    disks.cluster.create_topic("orders", partitions=3, replication_factor=3)
    return disks


def staged(cluster, **arguments):
    """Return an append's plan and its rows: written to the roots, committed nowhere."""
    plan = plan_append(cluster._node, AppendRequest(topic="orders", **arguments))
    return plan, stage_records(plan.order, batches_of(GIVEN), cluster._node.options)


def numbers_of(cluster) -> set[int]:
    return set(cluster.read("orders").column("partition").to_pylist())


def test_new_partitions_get_their_share_of_new_keys(orders):
    cluster = orders.cluster
    cluster.append("orders", GIVEN)
    assert numbers_of(cluster) == {0, 1, 2}

    assert cluster.add_partitions("orders", to=7) == 4
    cluster.append("orders", GIVEN)

    assert numbers_of(cluster) == set(range(7))
    assert sorted(values_of(cluster, "orders")) == sorted(EACH_ONCE * 2)


def test_a_topic_can_not_be_given_fewer(orders):
    with pytest.raises(InvalidPartitionsError, match="has 3 partitions and can't be given 3"):
        orders.cluster.add_partitions("orders", to=3)


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


def test_a_zombie_can_not_add_to_the_old_split(orders):
    older, newer = orders.cluster, orders.open()
    plan, rows = staged(older, producer_id="p", sequence=0)
    newer.add_partitions("orders", to=7)
    newer.append("orders", GIVEN, producer_id="p", sequence=0)

    with pytest.raises(ProducerFencedError):
        append_staged(older._node, [(plan, rows)])

    assert sorted(values_of(newer, "orders")) == EACH_ONCE
    assert numbers_of(newer) == set(range(7))


def test_a_zombie_can_not_add_to_the_old_split_under_a_leader_elected_since(orders):
    """The fence stands in the logs of the leaders of then; a later leader has never seen it."""
    older, newer = orders.cluster, orders.open()
    plan, rows = staged(older, producer_id="p", sequence=0)
    newer.add_partitions("orders", to=7)
    newer.append("orders", GIVEN, producer_id="p", sequence=0)
    orders.take_away(1)
    newer.run_controller()

    with pytest.raises(ProducerFencedError):
        append_staged(older._node, [(plan, rows)])

    assert sorted(values_of(newer, "orders")) == EACH_ONCE


def test_a_run_fences_a_topic_that_has_grown_once_and_again_before_a_retry(orders):
    orders.cluster.append("orders", GIVEN, producer_id="p", sequence=0)
    orders.cluster.add_partitions("orders", to=7)
    cluster = orders.open()
    folder = orders.folder(partition_of(cluster, "orders").leader, "orders") / "_delta_log"

    def commits_of(sequence):
        before = len(list(folder.glob("*.json")))
        cluster.append("orders", GIVEN, producer_id="p", sequence=sequence)
        return len(list(folder.glob("*.json"))) - before

    assert [commits_of(each) for each in (1, 2, 2, 3)] == [2, 1, 1, 1]


def test_a_sequence_that_stands_nowhere_is_not_taken_for_a_new_one(orders):
    cluster = orders.cluster
    cluster.append("orders", GIVEN, producer_id="p", sequence=5)
    cluster.add_partitions("orders", to=7)

    with pytest.raises(OutOfOrderSequenceError, match="sent sequence 4 after 5"):
        cluster.append("orders", GIVEN, producer_id="p", sequence=4)


def test_an_append_is_no_first_try_while_a_partition_can_not_be_asked(disks):
    cluster = disks.cluster
    cluster.create_topic("orders", replica_assignment={0: [1]})
    cluster.append("orders", GIVEN, producer_id="p", sequence=0)
    cluster.add_partitions("orders", to=2, replica_assignment={1: [2]})
    disks.take_away(1)
    cluster.run_controller()

    with pytest.raises(NotLeaderOrFollowerError, match="has no leader: bring its brokers back"):
        disks.open().append("orders", GIVEN, producer_id="p", sequence=0, acks=1, timeout_ms=500)


@pytest.fixture
def first_try_on_a_follower(disks):
    """Broker 1 led, took the first try alone, and follows since; all three are in sync."""
    cluster = disks.cluster
    cluster.create_topic("orders", replica_assignment={0: [2, 1, 3]})
    cluster.append("orders", GIVEN)
    disks.take_away(2)
    cluster.run_controller()
    disks.give_back(2)
    cluster.run_controller()
    cluster.replicate(is_sweep=True)
    assert (partition_of(cluster, "orders").leader, isr_of(cluster, "orders")) == (1, [1, 2, 3])
    cluster.append("orders", MOVING, producer_id="p", sequence=0, acks=1)
    cluster.elect_leaders("preferred")
    assert partition_of(cluster, "orders").leader == 2
    cluster.add_partitions("orders", to=2, replica_assignment={1: [2, 3, 1]})
    return disks


def test_a_first_try_that_the_leader_lacks_does_not_come_back(first_try_on_a_follower):
    """It is not committed, and would be if its holder led next (found by simulation)."""
    disks = first_try_on_a_follower
    cluster = disks.open()
    cluster.append("orders", MOVING, producer_id="p", sequence=0)
    disks.take_away(2)
    cluster.run_controller()
    assert partition_of(cluster, "orders").leader == 1

    cluster.append("orders", [(b"any", b"later")])
    cluster.replicate(is_sweep=True)

    assert sorted(values_of(cluster, "orders")) == sorted([*EACH_ONCE, b"moved", b"later"])


def test_an_append_takes_out_a_replica_that_can_not_be_asked_where_nobody_controls(
    first_try_on_a_follower,
):
    disks = first_try_on_a_follower
    # A busy machine misses a third of a session that is as short as in other tests.
    disks.cluster.alter_cluster_configs({"broker.session.timeout.ms": 900})
    disks.take_away(1)

    disks.open().append("orders", MOVING, producer_id="p", sequence=0, timeout_ms=60_000)

    assert all(1 not in isr_of(disks.cluster, "orders", number) for number in (0, 1))


def test_a_replica_in_sync_that_can_not_be_asked_may_have_a_first_try(first_try_on_a_follower):
    disks = first_try_on_a_follower
    disks.take_away(1)
    cluster = disks.open()

    with pytest.raises(NotEnoughReplicasError, match="the replica on broker 1 can't be asked"):
        cluster.append(
            "orders",
            MOVING,
            producer_id="p",
            sequence=0,
            timeout_ms=500,
            configs={"auto.controller": False},
        )
    cluster.run_controller()
    cluster.append("orders", MOVING, producer_id="p", sequence=0)

    assert sorted(values_of(cluster, "orders")) == sorted([*EACH_ONCE, b"moved"])
