"""Replicas that are lost, wiped, emptied or older than they were: never taken as empty or good."""

import os
import shutil

import pytest

from kafka_on_spark.base.ids import LOST
from kafka_on_spark.metadata.records import BrokerState
from tests.cluster.disks import isr_of, partition_of, records, values_of

VALUES = [b"a", b"b", b"c"]


@pytest.fixture
def cluster(disks):
    """Three records on brokers 1 (leader), 2 and 3, in three batches."""
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    for value in VALUES:
        disks.cluster.append("orders", records(value))
    return disks.cluster


def wipe(disks, broker_id):
    disks.take_away(broker_id)
    disks.root(broker_id).mkdir()


def replicate_until_caught_up(cluster):
    reports = []
    for _ in range(4):
        reports.append(cluster.replicate(is_sweep=not reports))
        if reports[-1].is_caught_up and reports[-1].isr_changes == 0:
            break
    return reports


def test_an_emptied_root_is_fenced_and_nothing_is_written_to_it(disks, cluster):
    wipe(disks, 1)

    report = cluster.run_controller()
    cluster.append("orders", records(b"d"))
    cluster.replicate(is_sweep=True)

    assert report.fenced == (1,)
    assert isr_of(cluster, "orders") == [2, 3]
    assert list(disks.root(1).iterdir()) == []
    assert values_of(cluster, "orders") == [*VALUES, b"d"]


def test_another_disk_is_taken_by_registering_it_and_fetched_in_full_under_a_new_uuid(
    disks, cluster
):
    before = partition_of(cluster, "orders")
    wipe(disks, 1)
    cluster.run_controller()
    assert cluster.run_controller().unfenced == ()

    cluster.register_broker(1, disks.root(1))
    reports = replicate_until_caught_up(cluster)

    after = partition_of(cluster, "orders")
    assert cluster.image.brokers[1].broker_epoch == 1
    assert cluster.image.brokers[1].state is BrokerState.ACTIVE
    assert after.uuid_of(1) != before.uuid_of(1)
    assert after.directory_of(1) not in (before.directory_of(1), None)
    assert sum(report.copied_records for report in reports) == 3
    assert isr_of(cluster, "orders") == [1, 2, 3]
    assert disks.values_on(1, "orders") == VALUES


@pytest.mark.parametrize("broker_id", [1, 3], ids=["leader", "follower"])
def test_a_replica_whose_folder_is_gone_is_made_anew_under_another_uuid(disks, cluster, broker_id):
    folder = disks.folder(broker_id, "orders")
    shutil.rmtree(folder)

    reports = replicate_until_caught_up(disks.open())

    assert sum(report.copied_records for report in reports) == 3
    assert disks.folder(broker_id, "orders") != folder
    assert not folder.exists()
    assert disks.values_on(broker_id, "orders") == VALUES
    assert isr_of(cluster, "orders") == [1, 2, 3]
    causes = [entry.cause or "" for entry in cluster.history("orders", 0)]
    assert any(cause.startswith(f"broker {broker_id}: replica is bad: ") for cause in causes)


@pytest.mark.parametrize(
    "broker_id, is_other_process",
    [pytest.param(1, False, id="leader"), pytest.param(3, True, id="follower, another process")],
)
def test_a_replica_that_was_rolled_back_is_found_and_fetched_anew(
    disks, cluster, broker_id, is_other_process
):
    folder = disks.folder(broker_id, "orders")
    copy = disks.leave_unreadable(folder)
    cluster.append("orders", records(b"d"))
    disks.restore(copy, folder)

    reports = replicate_until_caught_up(disks.open() if is_other_process else cluster)

    assert sum(report.copied_records for report in reports) == 4
    assert disks.folder(broker_id, "orders") != folder
    assert disks.values_on(broker_id, "orders") == [*VALUES, b"d"]
    assert values_of(cluster, "orders") == [*VALUES, b"d"]
    assert isr_of(cluster, "orders") == [1, 2, 3]


def test_a_read_that_finds_a_damaged_file_is_served_by_another_replica_and_reports_it(
    disks, cluster
):
    newest = max(disks.folder(1, "orders").glob("*.parquet"), key=os.path.getmtime)
    newest.write_bytes(newest.read_bytes()[::-1])

    with disks.open() as other:
        assert values_of(other, "orders") == VALUES

    assert partition_of(disks.open(), "orders").directory_of(1) == LOST
