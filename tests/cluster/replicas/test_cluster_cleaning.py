"""Stop and delete: which tables are gone from the disks after a pass, and which never are."""

import threading

import pytest

from tests.cluster.disks import new_disks, records, values_of
from tests.cluster.replicas.test_cluster_failover import REPLICAS


@pytest.fixture
def disks():
    with new_disks(brokers=4, configs={"file.delete.delay.ms": 0}) as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    disks.cluster.create_topic("orders", replica_assignment=REPLICAS)
    disks.cluster.append("orders", records(b"a"))
    return disks.cluster


def tables(disks, *broker_ids):
    brokers = broker_ids or (1, 2, 3, 4)
    return {folder for each in brokers for folder in disks.root(each).glob("*-*/*-*")}


def move(cluster, *target):
    """Move the topic's only partition, all the way."""
    cluster.reassign({("orders", 0): list(target)})
    for _ in range(2):
        cluster.replicate()
        cluster.run_controller()
    assert cluster.reassignments() == []


def assert_sound(disks):
    """Check everything that is on the disks, as a process that has just come would see it."""
    assert disks.open().fsck().findings == ()


def test_a_namesake_is_never_touched(disks, cluster):
    old = tables(disks)
    cluster.delete_topic("orders")
    cluster.create_topic("orders", replica_assignment=REPLICAS)
    cluster.append("orders", records(b"new"))

    assert cluster.run_controller().tables_removed == 3

    assert tables(disks) == {disks.folder(each, "orders") for each in (1, 2, 3)}
    assert tables(disks).isdisjoint(old)
    assert values_of(cluster, "orders") == [b"new"]
    assert_sound(disks)


def test_readers_and_writers_go_on_while_replicas_move_and_their_tables_go(disks, cluster):
    """With no delay at all: who reads a table that goes finds its records with another replica."""
    seen, errors, over = [], [], threading.Event()

    def read():
        reader = disks.open()
        while not over.is_set():
            try:
                seen.append(values_of(reader, "orders"))
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    expected = [b"a"]
    for number, target in enumerate([(4, 2, 3), (4, 1, 3), (1, 4, 2), (2, 3, 1)]):
        expected.append(b"%d" % number)
        cluster.append("orders", records(expected[-1]))
        move(cluster, *target)
    over.set()
    thread.join()

    assert errors == []
    assert all(each == expected[: len(each)] for each in seen)
    assert values_of(cluster, "orders") == expected
    assert tables(disks) == {disks.folder(each, "orders") for each in (1, 2, 3)}
    assert_sound(disks)
