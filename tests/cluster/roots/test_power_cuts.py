"""What a power cut leaves of files that were not flushed yet: their names, without their bytes."""

from pathlib import Path

import pytest

from kafka_on_spark.storage.delta import conditional_commit
from kafka_on_spark.storage.delta.files import void_commits
from tests.cluster.disks import isr_of, new_disks, partition_of, records, values_of


@pytest.fixture
def disks(monkeypatch):
    monkeypatch.setattr(void_commits, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(conditional_commit, "CHECKPOINT_INTERVAL", 10)
    with new_disks() as disks:
        disks.cluster.create_topic("t", replica_assignment={0: [1, 2, 3]})
        for number in range(10):
            disks.cluster.append("t", records(b"%d" % number))
        disks.cluster.close()  # checkpoints that are due are written: none is of later commits
        with disks.open() as cluster:
            for number in (10, 11):
                cluster.append("t", records(b"%d" % number))
        yield disks


def log_files(table, ending):
    return sorted((Path(table) / "_delta_log").glob(f"[0-9]*{ending}"))


def folder_of(disks, broker_id):
    [folder] = disks.root(broker_id).glob("t-*/0-*")
    return folder


def empty(*paths):
    for path in paths:
        path.write_bytes(b"")


VALUES = [b"%d" % number for number in range(12)]


def goes_on(disks):
    """Check that the cluster opens, has all records, and takes more."""
    for number in range(3):
        with disks.open() as cluster:
            more = [b"after %d" % each for each in range(number)]
            assert values_of(cluster, "t") == VALUES + more
            cluster.append("t", records(b"after %d" % number))
    with disks.open() as cluster:
        cluster.replicate(is_sweep=True)
        cluster.run_controller()
        assert partition_of(cluster, "t").leader is not None


def test_a_cluster_whose_newest_decision_has_no_bytes_opens_and_goes_on(disks):
    table = disks.cluster.metadata_table
    empty(log_files(table, ".json")[-1])

    # What it said was not acknowledged to anybody: here, that the last record is committed.
    with disks.open() as cluster:
        cluster.replicate()
    goes_on(disks)

    assert disks.open().fsck().is_clean


@pytest.mark.parametrize("hint", [True, False])
def test_a_cluster_whose_newest_checkpoint_has_no_bytes_opens_and_goes_on(disks, hint):
    table = Path(disks.cluster.metadata_table)
    empty(log_files(table, ".checkpoint.parquet")[-1])
    if hint:
        empty(table / "_delta_log" / "_last_checkpoint")

    goes_on(disks)

    assert disks.open().fsck().is_clean


@pytest.mark.parametrize("broker_id", [1, 2])
def test_a_replica_whose_newest_checkpoint_has_no_bytes_is_as_it_was(disks, broker_id):
    folder = folder_of(disks, broker_id)
    empty(log_files(folder, ".checkpoint.parquet")[-1], folder / "_delta_log" / "_last_checkpoint")

    goes_on(disks)

    with disks.open() as cluster:
        assert isr_of(cluster, "t") == [1, 2, 3]
    assert folder_of(disks, broker_id) == folder


def test_a_follower_whose_newest_commits_have_no_bytes_gets_the_records_again(disks):
    folder = folder_of(disks, 2)
    empty(*log_files(folder, ".json")[-2:])

    goes_on(disks)

    with disks.open() as cluster:
        cluster.replicate(is_sweep=True)
        assert isr_of(cluster, "t") == [1, 2, 3]
        assert cluster.fsck().is_clean
