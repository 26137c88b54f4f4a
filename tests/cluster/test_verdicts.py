"""Who finds a replica bad reports it, whoever it is; and what is sound is never lost."""

import os
import shutil
import threading
import time

import pytest

from kafka_on_spark.errors import RequestTimedOutError
from kafka_on_spark.ids import LOST
from tests.cluster.disks import isr_of, new_disks, partition_of, records, values_of

VALUES = [b"a", b"b", b"c"]


@pytest.fixture
def cluster(disks):
    """Three records on brokers 1 (leader), 2 and 3, in three batches."""
    return filled(disks)


def filled(disks):
    disks.cluster.create_topic(
        "orders", replica_assignment={0: [1, 2, 3]}, configs={"min.insync.replicas": 2}
    )
    for value in VALUES:
        disks.cluster.append("orders", records(value))
    return disks.cluster


def newest_commit(folder):
    return max((folder / "_delta_log").glob("*.json"))


def remove(folder):
    shutil.rmtree(folder)


def break_newest_commit(folder):
    newest_commit(folder).write_text("{xx")


def set_back(folder):
    newest_commit(folder).unlink()


DAMAGES = [remove, break_newest_commit, set_back]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_append_that_finds_its_leader_bad_reports_it_and_goes_on_with_the_next(
    disks, cluster, damage
):
    damage(disks.folder(1, "orders"))
    other = disks.open()

    other.append("orders", records(b"d"))

    after = partition_of(other, "orders")
    assert after.leader == 2
    assert after.directory_of(1) == LOST
    assert values_of(other, "orders") == [*VALUES, b"d"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_append_that_finds_a_follower_bad_reports_it_and_is_acknowledged(disks, cluster, damage):
    damage(disks.folder(3, "orders"))
    other = disks.open()

    other.append("orders", records(b"d"))

    assert isr_of(other, "orders") == [1, 2]
    assert partition_of(other, "orders").directory_of(3) == LOST


def test_an_append_whose_time_is_up_before_the_second_look_has_it_made_when_the_cluster_is_closed():
    with new_disks(configs={"replica.verdict.delay.ms": 1500}) as disks:
        filled(disks)
        remove(disks.folder(1, "orders"))
        other = disks.open()
        with pytest.raises(RequestTimedOutError):
            other.append("orders", records(b"d"), timeout_ms=300)
        assert partition_of(disks.cluster, "orders").leader == 1

        other.close()

        disks.cluster.append("orders", records(b"e"))
        assert partition_of(disks.cluster, "orders").leader == 2


def test_a_read_that_finds_a_damaged_file_is_served_by_another_replica_and_reports_it(
    disks, cluster
):
    newest = max(disks.folder(1, "orders").glob("*.parquet"), key=os.path.getmtime)
    newest.write_bytes(newest.read_bytes()[::-1])
    other = disks.open()

    assert values_of(other, "orders") == VALUES

    other.close()
    assert disks.open().image.topic("orders").partitions[0].directory_of(1) == LOST


def test_a_pass_that_commands_a_bad_leader_reports_it(disks, cluster):
    disks.take_away(1)
    shutil.rmtree(disks.folder(2, "orders"))
    other = disks.open()

    other.run_controller()
    other.close()

    after = disks.open().image.topic("orders").partitions[0]
    assert after.directory_of(2) == LOST
    assert after.leader == 3


def test_roots_that_go_away_for_moments_lose_no_replica(disks, cluster):
    """Each look is a process's first: nothing is kept that could have been read before."""
    is_over = threading.Event()
    away = [0]

    def come_and_go():
        turn = 0
        while not is_over.is_set():
            root = disks.root(turn % 3 + 1)
            root.rename(f"{root}.away")
            time.sleep(0.004)
            os.rename(f"{root}.away", root)
            time.sleep(0.004)
            turn += 1
        away[0] = turn

    storm = threading.Thread(target=come_and_go)
    storm.start()
    try:
        for _ in range(12):
            disks.open().replicate(is_sweep=True)
    finally:
        is_over.set()
        storm.join()

    assert away[0] > 20
    assert LOST not in partition_of(disks.open(), "orders").directories
    cluster.replicate(is_sweep=True)
    cluster.append("orders", records(b"d"))
    assert values_of(cluster, "orders") == [*VALUES, b"d"]
