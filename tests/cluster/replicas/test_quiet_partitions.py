"""Sweeps of real tables: idle ones are looked at by their newest commit file, and what happened to
one is found by that."""

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kafka_on_spark.controller.pace.quiet import TableMark
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.service.replicate.quiet_partitions import MarkOrder
from kafka_on_spark.storage.calls import deadlines
from kafka_on_spark.storage.replicas import replica_store
from kafka_on_spark.storage.replicas import table_marks as tables
from kafka_on_spark.storage.replicas.table_marks import marks_of_many, table_marks
from kafka_on_spark.storage.roots.roots import StorageOptions
from tests.builders import TOPIC_ID, address
from tests.cluster.disks import isr_of, new_disks, partition_of

PARTITIONS = 4
ALL_REPLICAS = 3 * PARTITIONS
OPTIONS = StorageOptions()


@pytest.fixture
def disks():
    with new_disks(configs={"replica.sweep.interval.ms": 40}) as disks:
        disks.cluster.create_topic("idle", partitions=PARTITIONS, replication_factor=3)
        rows = [{"value": b"v", "partition": each} for each in range(PARTITIONS)]
        disks.cluster.append("idle", rows)
        yield disks


@pytest.fixture
def opened(monkeypatch):
    """Counts tables that are opened anew."""
    log, found = replica_store.DeltaReplicaLog, []

    def counting(address, options, **named):
        if named.get("checks_disk"):
            found.append((address.key.partition, address.broker_id))
        return log(address, options, **named)

    counting.create = log.create
    monkeypatch.setattr(replica_store, "DeltaReplicaLog", counting)
    return found


def sweep(cluster):
    """Do rounds until one has inspected all partitions that it owes; return its report."""
    for _ in range(20):
        time.sleep(0.05)
        report = cluster.replicate()
        if report.slice_count == PARTITIONS:
            return report
    raise AssertionError("no round has inspected all partitions")


def test_what_is_idle_is_opened_once_and_still_counts_as_inspected(disks, opened):
    sweep(disks.cluster)
    first = len(opened)
    reports = [sweep(disks.cluster) for _ in range(3)]

    assert first == ALL_REPLICAS
    assert len(opened) == first
    assert all(each.is_caught_up and each.not_looked_at == 0 for each in reports)


def test_an_append_has_its_partition_read_again(disks, opened):
    sweep(disks.cluster)
    opened.clear()
    disks.cluster.append("idle", [{"value": b"w", "partition": 1}])
    sweep(disks.cluster)
    sweep(disks.cluster)

    assert sorted(opened) == [(1, 1), (1, 2), (1, 3)]


def test_a_full_sweep_opens_all_and_so_does_an_interval_of_nothing(disks, opened):
    sweep(disks.cluster)
    opened.clear()
    disks.cluster.replicate(is_sweep=True)
    assert len(opened) == ALL_REPLICAS

    opened.clear()
    disks.cluster.alter_cluster_configs({"replica.verify.interval.ms": 0})
    sweep(disks.cluster)
    assert len(opened) == ALL_REPLICAS


@pytest.mark.parametrize("what", ["wiped", "an older copy"])
def test_a_table_that_is_gone_or_went_back_is_found_by_the_next_sweep(disks, what):
    folder = disks.folder(3, "idle", 2)
    copy = disks.leave_unreadable(folder)
    disks.cluster.append("idle", [{"value": b"w", "partition": 2}])
    sweep(disks.cluster)
    sweep(disks.cluster)
    uuid = partition_of(disks.cluster, "idle", 2).uuid_of(3)

    if what == "wiped":
        shutil.rmtree(folder)
    else:
        disks.restore(copy, folder)
    sweep(disks.cluster)
    sweep(disks.cluster)

    assert partition_of(disks.cluster, "idle", 2).uuid_of(3) != uuid
    disks.cluster.replicate()
    assert isr_of(disks.cluster, "idle", 2) == [1, 2, 3]


def test_the_mark_of_a_table_tells_every_change(disks):
    folder = disks.folder(1, "idle")
    image = disks.cluster.image
    address = replica_address(image)

    def mark(known=None):
        [found] = table_marks(MarkOrder((address,), () if known is None else (known,)), OPTIONS)
        return found

    first = mark()
    assert isinstance(first, TableMark)
    assert mark(first) == first == mark(TableMark(first.version - 1, ("x",)))
    disks.cluster.append("idle", [{"value": b"w", "partition": 0}])
    second = mark(first)
    assert second.version > first.version
    assert mark() == second

    copy = disks.leave_unreadable(folder)
    disks.restore(copy, folder)
    restored = mark(second)
    assert restored.version == second.version
    assert restored != second
    shutil.rmtree(folder)
    assert mark(restored) is None


@pytest.mark.parametrize("quick_seconds", [60, 0], ids=["a quick disk", "a slow one"])
def test_many_partitions_have_the_marks_of_each_but_where_a_root_hangs(
    disks, monkeypatch, quick_seconds
):
    monkeypatch.setattr(tables, "TABLES_A_CALL", 3)
    monkeypatch.setattr(tables, "QUICK_SECONDS", quick_seconds)
    image = disks.cluster.image
    addresses = [
        tuple(address_of(image, key, each, broker_id) for broker_id in each.replicas)
        for key, each in image.partitions()
    ]
    shutil.rmtree(disks.folder(1, "idle"))
    marks = [table_marks(MarkOrder(each), OPTIONS) for each in addresses]
    orders = [MarkOrder(each, known) for each, known in zip(addresses, marks, strict=True)]

    with ThreadPoolExecutor(2) as threads:
        assert marks_of_many(orders, OPTIONS, threads) == marks
        assert sum(each is None for found in marks for each in found) == 1
        root = str(disks.root(2))
        stuck = [deadlines.Call(root, lambda: None, -60.0) for _ in range(deadlines.STUCK_MAX)]
        monkeypatch.setattr(deadlines._pools_of(root)[0], "running", {*stuck})
        found = marks_of_many(orders, OPTIONS, threads)

    assert found == [
        tuple(None if at.broker_id == 2 else mark for at, mark in zip(*each, strict=True))
        for each in zip(addresses, marks, strict=True)
    ]


def replica_address(image):
    [(key, partition)] = [(key, each) for key, each in image.partitions() if key.partition == 0]
    return address_of(image, key, partition, 1)


@pytest.mark.parametrize(
    "root, count, sizes",
    [
        ("/disk", 5, [5]),
        ("/disk", 80, [64, 16]),
        ("s3://bucket/broker", 20, [1] * 20),
    ],
)
def test_a_disk_is_asked_for_many_tables_in_one_call_and_a_store_for_one(root, count, sizes):
    assert [len(each) for each in tables._calls(root, range(count))] == sizes


@pytest.mark.parametrize("count, sizes", [(0, []), (5, [1] * 5), (63, [8] * 7 + [7])])
def test_what_a_quick_call_has_left_is_looked_at_in_eight_calls(count, sizes):
    assert [len(each) for each in tables._pieces(range(count))] == sizes


class SlowDisk:
    """A far mount: each look takes longer than all looks at a disk of this machine, and the marks
    are the partitions' numbers. It knows how many looks were under way at once."""

    def __init__(self):
        self._lock = threading.Lock()
        self._under_way = 0
        self.at_once_max = 0

    def mark(self, table, options):
        with self._lock:
            self._under_way += 1
            self.at_once_max = max(self.at_once_max, self._under_way)
        time.sleep(tables.QUICK_SECONDS)
        with self._lock:
            self._under_way -= 1
        return table[0].key.partition


def test_tables_of_a_slow_disk_are_looked_at_side_by_side_after_the_first(monkeypatch):
    disk = SlowDisk()
    monkeypatch.setattr(tables, "_mark", disk.mark)
    keys = [PartitionKey(TOPIC_ID, number) for number in range(33)]
    orders = [MarkOrder((replace(address(1, key=key), root="/far"),)) for key in keys]

    with ThreadPoolExecutor(8) as threads:
        found = marks_of_many(orders, OPTIONS, threads)

    assert found == [(number,) for number in range(33)]
    assert disk.at_once_max > 1
