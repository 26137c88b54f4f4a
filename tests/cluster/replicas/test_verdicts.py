"""Any process that finds a replica bad reports it, and no sound replica is ever lost."""

import os
import shutil
import threading
import time

import pytest

from kafka_on_spark.base.ids import LOST
from kafka_on_spark.log.read_order import plan_reads
from kafka_on_spark.spark.source import PartitionRange, Reading
from tests.cluster.disks import PATIENCE_MS, partition_of, records, values_of
from tests.cluster.format.sources import options

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


def rolled_back(folder):
    newest_commit(folder).unlink()


DAMAGES = [remove, break_newest_commit, rolled_back]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_append_that_finds_its_leader_bad_reports_it_and_goes_on_with_the_next(
    disks, cluster, damage
):
    damage(disks.folder(1, "orders"))
    other = disks.open()

    other.append("orders", records(b"d"), timeout_ms=PATIENCE_MS)

    after = partition_of(other, "orders")
    assert after.leader == 2
    assert after.directory_of(1) == LOST
    assert values_of(other, "orders") == [*VALUES, b"d"]


def test_a_task_that_reads_a_damaged_file_reports_it_itself(disks, cluster):
    newest = newest_segment(disks.folder(1, "orders"))
    newest.write_bytes(newest.read_bytes()[::-1])
    reading = Reading(options(disks, is_stream=False, subscribe="orders"))

    [order] = plan_reads(cluster.image, "orders")
    rows = reading.rows(PartitionRange(order))
    assert sum(each.num_rows for each in rows) == len(VALUES)

    assert cluster.image.topic("orders").partitions[0].directory_of(1) == LOST


def test_a_read_that_finds_a_damaged_file_is_served_by_another_replica_and_reports_it(
    disks, cluster
):
    newest = max(disks.folder(1, "orders").glob("*.parquet"), key=os.path.getmtime)
    newest.write_bytes(newest.read_bytes()[::-1])
    other = disks.open()

    assert values_of(other, "orders") == VALUES

    other.close()
    assert disks.open().image.topic("orders").partitions[0].directory_of(1) == LOST


def test_roots_that_go_away_for_moments_lose_no_replica(disks, cluster):
    """Each inspection is a process's first: nothing is kept that could have been read before."""
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
        rounds = 0
        while rounds < 12 or away[0] <= 20:
            disks.open().replicate(is_sweep=True)
            rounds += 1
    finally:
        is_over.set()
        storm.join()

    assert LOST not in partition_of(disks.open(), "orders").directories
    cluster.replicate(is_sweep=True)
    cluster.append("orders", records(b"d"))
    assert values_of(cluster, "orders") == [*VALUES, b"d"]


def newest_segment(folder):
    return max(folder.glob("*.parquet"), key=os.path.getmtime)
