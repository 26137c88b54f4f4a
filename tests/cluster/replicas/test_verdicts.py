"""Any process that finds a replica bad reports it, and no sound replica is ever lost."""

import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

from kafka_on_spark.errors import RequestTimedOutError
from kafka_on_spark.ids import LOST
from kafka_on_spark.query.reads.read_order import plan_reads
from kafka_on_spark.spark.run.opening import replica_store
from kafka_on_spark.spark.wiring.second_inspections import TaskFindings
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.replicas.reader import read_rows
from kafka_on_spark.storage.roots.roots import StorageOptions
from tests.cluster.disks import (
    PATIENCE_MS,
    isr_of,
    new_disks,
    partition_of,
    records,
    values_of,
)

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


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_append_that_finds_a_follower_bad_reports_it_and_is_acknowledged(disks, cluster, damage):
    damage(disks.folder(3, "orders"))
    other = disks.open()

    other.append("orders", records(b"d"), timeout_ms=PATIENCE_MS)

    assert isr_of(other, "orders") == [1, 2]
    assert partition_of(other, "orders").directory_of(3) == LOST


class StoppedClock(SystemClock):
    """A clock that stands until `goes` is set: whoever sleeps waits for that first."""

    def __init__(self):
        self._stopped_at_ms = super().monotonic_ms()
        self.goes = threading.Event()

    def monotonic_ms(self):
        return super().monotonic_ms() if self.goes.is_set() else self._stopped_at_ms

    def sleep_ms(self, duration_ms):
        assert self.goes.wait(60)
        super().sleep_ms(duration_ms)


def stopped(cluster):
    """Have no second inspection of a process be due before the clock that is returned goes."""
    clock = cluster._services.second_inspections._clock = StoppedClock()
    return clock


def test_an_append_whose_time_is_up_before_the_second_inspection_has_it_made_when_the_cluster_is_closed(
    disks, cluster
):
    remove(disks.folder(1, "orders"))
    other = disks.open()
    clock = stopped(other)
    with pytest.raises(RequestTimedOutError):
        other.append("orders", records(b"d"), timeout_ms=300)
    assert partition_of(cluster, "orders").leader == 1

    clock.goes.set()
    other.close()

    cluster.append("orders", records(b"e"))
    assert partition_of(cluster, "orders").leader == 2


def test_a_process_that_ends_before_its_second_inspection_makes_it_before_it_is_gone():
    with new_disks(configs={"replica.verdict.delay.ms": 1500}) as disks:
        filled(disks)
        remove(disks.folder(1, "orders"))
        program = """
import sys
from kafka_on_spark import Cluster
cluster = Cluster.open(sys.argv[1])
try:
    # Its first try is its last: the second inspection is not due by then, however long that takes.
    cluster.append("orders", [(b"k", b"d")], timeout_ms=1)
except TimeoutError:
    print("in doubt")
"""
        ended = subprocess.run(
            [sys.executable, "-c", program, str(disks.metadata_root)],
            capture_output=True,
            text=True,
            check=True,
        )

        assert ended.stdout == "in doubt\n"
        after = disks.open().image.topic("orders").partitions[0]
        assert after.directory_of(1) == LOST
        assert after.leader == 2


def test_a_task_that_reads_a_damaged_file_reports_it_itself(disks, cluster):
    newest = newest_segment(disks.folder(1, "orders"))
    newest.write_bytes(newest.read_bytes()[::-1])
    findings = TaskFindings(str(disks.metadata_root), StorageOptions())
    store = replica_store(StorageOptions())

    [order] = plan_reads(cluster.image, "orders")
    rows = read_rows(order, store, StorageOptions(), note=findings.note)
    assert sum(each.num_rows for each in rows) == len(VALUES)
    findings.report()

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


def lose_by_a_missing_segment(disks):
    """Take the newest file from the leader, which a read finds; return what restores it."""
    folder = disks.folder(1, "orders")
    segment = newest_segment(folder)
    aside = disks.base / segment.name
    segment.rename(aside)
    other = disks.open()
    assert values_of(other, "orders") == VALUES
    other.close()
    assert disks.cluster.image.topic("orders").partitions[0].directory_of(1) == LOST
    return lambda: shutil.copy(aside, segment)


def test_a_replica_whose_missing_segment_was_restored_is_taken_back(disks, cluster):
    uuid = partition_of(cluster, "orders").uuid_of(1)
    restore = lose_by_a_missing_segment(disks)
    other = disks.open()
    other.run_controller()
    assert partition_of(other, "orders").uuid_of(1) != uuid  # made anew: it is not whole

    restore()
    another = disks.open()  # this process has found nothing wrong with it
    another.run_controller()

    assert partition_of(another, "orders").uuid_of(1) == uuid
    assert partition_of(another, "orders").former_uuids == ()
    another.replicate(is_sweep=True)
    assert isr_of(another, "orders") == [1, 2, 3]
    assert values_of(another, "orders") == VALUES


def test_a_lost_table_is_removed_once_its_replica_is_in_sync_again_and_not_before():
    with new_disks(configs={"file.delete.delay.ms": 0}) as disks:
        cluster = filled(disks)
        folder = disks.folder(1, "orders")
        lose_by_a_missing_segment(disks)
        cluster.run_controller()  # makes it anew, and cleans
        assert folder.exists()

        for _ in range(2):
            cluster.replicate(is_sweep=True)
        assert isr_of(cluster, "orders") == [1, 2, 3]
        cluster.run_controller()

        assert not folder.exists()
        assert disks.folder(1, "orders").exists()


def test_a_lost_table_that_a_cleaner_has_begun_to_remove_is_never_taken_back():
    with new_disks(configs={"file.delete.delay.ms": 0}) as disks:
        cluster = filled(disks)
        folder = disks.folder(1, "orders")
        copy = disks.leave_unreadable(folder)
        restore = lose_by_a_missing_segment(disks)
        cluster.run_controller()
        for _ in range(2):
            cluster.replicate(is_sweep=True)
        cluster.run_controller()
        uuid = partition_of(cluster, "orders").uuid_of(1)
        assert not folder.exists()

        shutil.copytree(copy, folder)
        restore()
        disks.open().run_controller()

        assert partition_of(cluster, "orders").uuid_of(1) == uuid
        assert not folder.exists()


def test_a_process_that_was_stopped_between_its_inspections_loses_no_replica_that_was_mended(
    disks, cluster
):
    """Hours may lie between them: the second is made on the newest metadata, of what is there."""
    segment = newest_segment(disks.folder(1, "orders"))
    aside = disks.base / segment.name
    segment.rename(aside)
    other = disks.open()
    clock = stopped(other)
    assert values_of(other, "orders") == VALUES  # the first inspection
    shutil.copy(aside, segment)

    clock.goes.set()
    other.close()

    assert disks.open().image.topic("orders").partitions[0].directory_of(1) != LOST
