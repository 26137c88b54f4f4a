"""Nobody controls the cluster: an append decides for what it waits for, and harms nobody else."""

import json
from functools import partial

import pytest

from kafka_on_spark.metadata.records import BrokerState
from tests.cluster.control.alone import appends
from tests.cluster.disks import isr_of, new_disks, partition_of, values_of
from tests.cluster.scripts import Started

SESSION_S = 4.0

SESSION = {"broker.session.timeout.ms": str(int(SESSION_S * 1000))}
SHORT_SESSION_S = 0.9
"""Not so short that a busy machine misses a third of it."""


@pytest.fixture
def disks():
    """A cluster of short sessions, whose appends have the time that a busy machine needs."""
    session_ms = int(SHORT_SESSION_S * 1000)
    configs = {
        "broker.session.timeout.ms": session_ms,
        "delivery.timeout.ms": 240_000,
        "replica.lag.time.max.ms": 600_000,  # who is away leaves an ISR by a decision alone
    }
    with new_disks(configs=configs) as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    """Two topics of two partitions: brokers 1 and 2 lead one of each."""
    return _prepared(disks)


def _prepared(disks):
    cluster = disks.cluster
    for name in ("orders", "others"):
        cluster.create_topic(
            name,
            replica_assignment={0: [1, 2, 3], 1: [2, 3, 1]},
            configs={"min.insync.replicas": 2},
        )
        cluster.append(name, [{"value": b"a", "partition": each} for each in (0, 1)])
    return cluster


def to_partition(number, value=b"b"):
    return [{"value": value, "partition": number}]


def states(cluster):
    return {each.state for each in cluster.image.brokers.values()}


@pytest.mark.parametrize("broker_id, leader", [(1, 2), (3, 1)], ids=["leader", "follower"])
def test_an_append_goes_on_without_a_disk_that_is_gone(disks, cluster, broker_id, leader):
    disks.take_away(broker_id)

    result = cluster.append("orders", to_partition(0))

    assert result.partitions[0].base_offset == 1
    assert partition_of(cluster, "orders").leader == leader
    assert broker_id not in isr_of(cluster, "orders")
    assert not disks.root(broker_id).exists()


@pytest.fixture
def slow_disks():
    """A cluster whose sessions are long enough to do something within one."""
    configs = {**SESSION, "delivery.timeout.ms": "120000", "replica.lag.time.max.ms": "600000"}
    with new_disks(configs=configs) as disks:
        _prepared(disks)
        yield disks


@pytest.mark.long
def test_many_processes_at_once_make_one_decision(slow_disks):
    disks, cluster, count = slow_disks, slow_disks.cluster, 20
    disks.take_away(1)

    started = Started(partial(appends, str(disks.metadata_root), "orders", count))
    try:
        answers = [json.loads(each) for each in started.rest(240).splitlines()]
    finally:
        started.end()
        started.stdout.close()

    assert [each["error"] for each in answers] == [None] * count
    decided = [each for each in cluster.history("orders") if "nobody controls" in each.cause]
    assert len({each.partition for each in decided}) == len(decided)
    values = values_of(cluster, "orders")
    assert len(values) == len(set(values)) + 1 == count + 2  # both partitions began with b"a"
    assert isr_of(cluster, "others") == [1, 2, 3]
    assert states(cluster) == {BrokerState.ACTIVE}
