"""Replicas move between real tables: what is told of it, who reads meanwhile, and a broker that is emptied."""

import threading

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.metadata.records import BrokerState
from tests.cluster.disks import new_disks, values_of

QUICK = {
    "controller.lease.ms": 30,
    "delivery.timeout.ms": 120_000,
    "file.delete.delay.ms": 0,
    "replica.fetch.backoff.ms": 0,
    "min.insync.replicas": 2,
}
ASSIGNMENT = {0: [1, 2, 3], 1: [2, 3, 1], 2: [1, 3, 2]}


@pytest.fixture
def disks():
    with new_disks(brokers=5, configs=QUICK) as disks:
        disks.cluster.create_topic("orders", replica_assignment=ASSIGNMENT)
        for value in (b"first", b"second"):
            fill(disks.cluster, value)
        yield disks


@pytest.fixture
def cluster(disks):
    return disks.cluster


def fill(cluster, value):
    cluster.append("orders", [(bytes([each]), value) for each in range(32)])


def finish(cluster):
    """Replicate and control until no replica moves any more."""
    for _ in range(8):
        cluster.replicate()
        cluster.run_controller()
        if not cluster.reassignments():
            return
    raise AssertionError(f"still moving: {cluster.reassignments()}")


def test_progress_is_told_in_bytes(disks, cluster):
    cluster.reassign({("orders", 0): [1, 4, 5]}, throttle_bytes_per_s=1)
    [start] = cluster.reassignment_progress()
    size = sum(each.stat().st_size for each in disks.folder(1, "orders").glob("*.parquet"))
    assert (start.copied_bytes, start.total_bytes, start.waits_for) == (0, 2 * size, (4, 5))

    cluster.replicate(configs={"replica.fetch.max.bytes": 1})  # a batch of one of them

    [middle] = cluster.reassignment_progress()
    assert 0 < middle.copied_bytes < middle.total_bytes == 2 * size
    cluster.reassign({("orders", 0): [1, 4, 5]})
    cluster.replicate()
    [end] = cluster.reassignment_progress()
    assert (end.copied_bytes, end.waits_for) == (2 * size, ())
    finish(cluster)
    assert cluster.reassignment_progress() == []


def test_readers_and_writers_go_on_while_replicas_move_and_their_tables_go(disks, cluster):
    """With no delay at all: who reads a table that goes finds its records with another replica."""
    seen, errors, over = [], [], threading.Event()

    def read():
        reader = disks.open()
        while not over.is_set():
            try:
                seen.append(set(values_of(reader, "orders")))
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    expected = [b"first", b"second"]
    for number, target in enumerate([(4, 2, 3), (4, 1, 3), (1, 4, 2), (2, 3, 1)]):
        expected.append(b"%d" % number)
        fill(cluster, expected[-1])
        cluster.reassign({("orders", 0): list(target)})
        finish(cluster)
    over.set()
    thread.join()

    assert errors == []
    assert all({b"first", b"second"} <= each <= set(expected) for each in seen)
    assert sorted(values_of(cluster, "orders")) == sorted(expected * 32)
    assert not list(disks.root(4).glob("orders-*/*-*"))
    assert disks.open().fsck().findings == ()


def test_only_an_empty_broker_is_unregistered_and_its_id_may_come_again(disks, cluster):
    expected = values_of(cluster, "orders")
    cluster.drain_broker(1)
    with pytest.raises(InvalidRequestError, match="broker 1 has replicas of 3 partitions"):
        cluster.unregister_broker(1)

    cluster.reassign(cluster.plan_reassignment(brokers=[2, 3, 4]).targets)
    with pytest.raises(InvalidRequestError, match="broker 1 has replicas of"):
        cluster.unregister_broker(1)
    finish(cluster)
    cluster.unregister_broker(1)

    assert 1 not in cluster.image.brokers
    assert not list(disks.root(1).glob("orders-*"))
    assert sorted(values_of(cluster, "orders")) == sorted(expected)
    cluster.register_broker(1, disks.root(1))
    assert cluster.image.brokers[1].broker_epoch == 1
    assert cluster.image.brokers[1].state is BrokerState.ACTIVE
    cluster.reassign({("orders", 0): [1, 2, 3]})
    finish(cluster)
    assert disks.open().fsck().findings == ()
