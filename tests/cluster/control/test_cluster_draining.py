"""A broker is emptied and leaves: on real tables, with appends all the way."""

import threading
from functools import partial

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.metadata.records import BrokerState
from tests.cluster.control.test_cluster_reassignment import QUICK, assert_sound, finish
from tests.cluster.disks import new_disks, values_of
from tests.cluster.serving.processes import wait_for

ASSIGNMENT = {0: [1, 2, 3], 1: [2, 3, 1], 2: [1, 3, 2]}


@pytest.fixture
def disks():
    with new_disks(brokers=4, configs=QUICK) as disks:
        disks.cluster.create_topic("orders", replica_assignment=ASSIGNMENT)
        fill(disks.cluster, b"before")
        yield disks


@pytest.fixture
def cluster(disks):
    return disks.cluster


def fill(cluster, value):
    cluster.append("orders", [(bytes([each]), value) for each in range(32)])


def is_in_sync(cluster, broker_id):
    """Replicate; return whether a broker is in the ISR of each partition. Until it is, to drain the
    next one would leave too few in sync for appends."""
    cluster.replicate()
    isrs = [entry.isr for each in ASSIGNMENT for entry in cluster.history("orders", each)[-1:]]
    return all(broker_id in isr for isr in isrs)


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
    fill(cluster, b"after")
    assert_sound(disks)


def test_appends_go_on_while_a_broker_is_drained(disks, cluster):
    acknowledged, errors, over = [], [], threading.Event()

    def append():
        producer = disks.open()
        number = 0
        while not over.is_set() or number < 3:
            value = b"append %d" % number
            try:
                producer.append("orders", [(bytes([each]), value) for each in range(8)])
            except Exception as error:
                errors.append(error)
                return
            acknowledged.append(value)
            number += 1

    thread = threading.Thread(target=append)
    thread.start()
    for broker_id in (1, 2):
        cluster.drain_broker(broker_id)
        cluster.replicate()
        cluster.resume_broker(broker_id)
        wait_for(partial(is_in_sync, cluster, broker_id))
    over.set()
    thread.join()

    assert errors == []
    values = values_of(cluster, "orders")
    assert all(values.count(each) == 8 for each in acknowledged)
    assert all(entry.leader is not None for entry in cluster.history("orders"))
    cluster.replicate(is_sweep=True)
    assert_sound(disks)
