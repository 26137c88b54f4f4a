"""Upkeep of replicas on real disks: what goes, and what stays. `tests/cluster/week` kills it."""

import os

import pytest

from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.store.delta import delta_log
from tests.cluster.disks import new_disks, partition_of, records, values_of
from tests.cluster.replicas.test_cluster_failover import REPLICAS


@pytest.fixture
def disks():
    configs = {"file.delete.delay.ms": 0, "log.cleaner.share": "0", "delivery.timeout.ms": "2000"}
    with new_disks(configs=configs) as disks:
        disks.cluster.create_topic("orders", replica_assignment=REPLICAS)
        yield disks


def files_of(disks, broker_id):
    return {path.name for path in disks.folder(broker_id, "orders").glob("*.parquet")}


def leave_garbage(disks):
    """Have a record, removed files on each replica, and files of an older leadership."""
    cluster = disks.cluster
    for value in (b"a", b"b", b"c"):
        cluster.append("orders", records(value))
    cluster.delete_records({("orders", 0): 2})
    cluster.elect_leaders("preferred")
    for broker_id in (1, 2, 3):
        stale = disks.folder(broker_id, "orders") / ("0-" + "a" * 32 + "-" + "b" * 32 + ".parquet")
        stale.write_bytes(b"staged once")
        os.utime(stale, (1, 1))
    return {each: files_of(disks, each) for each in (1, 2, 3)}


def assert_only_records_are_left(disks):
    assert values_of(disks.cluster, "orders") == [b"c"]
    for broker_id in (1, 2, 3):
        assert len(files_of(disks, broker_id)) == 1
    assert disks.open().fsck().findings == ()


def raise_epoch(disks):
    """Have another leadership begin, and everybody adopt it."""
    cluster = disks.cluster
    before = partition_of(cluster, "orders").leader_epoch
    disks.take_away(1)
    cluster.run_controller()
    disks.give_back(1)
    cluster.run_controller()
    cluster.replicate(is_sweep=True)
    assert partition_of(cluster, "orders").leader_epoch > before


def test_removed_files_and_those_of_older_leaderships_go(disks):
    leave_garbage(disks)
    raise_epoch(disks)

    due = disks.cluster.maintain(is_dry_run=True)
    report = disks.cluster.maintain()

    assert {(row.broker_id, row.count) for row in report.rows} == {(1, 3), (2, 3), (3, 3)}
    assert [row.count for row in due.rows] == [row.count for row in report.rows]
    assert not report.is_left
    assert_only_records_are_left(disks)
    assert disks.cluster.maintain().rows == ()


def test_appends_have_checkpoints_written_as_they_are_due_and_ask_no_thread_before(monkeypatch):
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 20)
    with new_disks() as disks:
        disks.cluster.create_topic("orders", replica_assignment=REPLICAS)
        maintenance, asked = disks.cluster._node.maintenance, []
        add = maintenance.add
        monkeypatch.setattr(maintenance, "add", lambda works: (asked.append(works), add(works)))
        folders = [disks.folder(each, "orders") for each in (1, 2, 3)]

        def appended(count):
            for _ in range(count):
                disks.cluster.append("orders", records(b"a"))
            maintenance.finish()
            return [sorted(each.glob("_delta_log/*.checkpoint.parquet")) for each in folders]

        assert appended(19) == [[], [], []]
        assert not any(isinstance(each, ReplicaAddress) for works in asked for each in works)
        for found in appended(1):
            assert [each.name for each in found] == [f"{20:020d}.checkpoint.parquet"]
        assert list(disks.metadata_root.glob("**/_delta_log/*.checkpoint.parquet"))
