"""What a cluster asks of its roots is counted by operation and kind, and stands in the figures."""

from collections import Counter

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.store.counts import requests_sent
from tests.cluster.disks import Disks, records
from tests.cluster.folders import quick_folder


@pytest.fixture(scope="module")
def disks():
    with quick_folder() as folder:
        disks = Disks(folder)
        disks.create(3)
        try:
            yield disks
        finally:
            disks.close()


@pytest.fixture
def cluster(disks):
    with Cluster.open(disks.cluster.root) as cluster:
        yield cluster


def sent(work):
    """Return what operations have sent while `work` was done."""
    before = requests_sent()
    work()
    found = Counter()
    for (operation, _), count in (requests_sent() - before).items():
        found[operation] += count
    return found


def test_each_operation_is_named_and_a_cluster_that_is_open_asks_nothing_without_one(cluster):
    def work():
        policy = {"cleanup.policy": "compact,delete", "retention.ms": 1_000_000}
        cluster.create_topic("named", partitions=2, replication_factor=2, configs=policy)
        cluster.append("named", records("a"))
        cluster.read("named")
        with cluster.consumer("named", auto_offset_reset="earliest") as consumer:
            assert consumer.poll(120_000).num_rows == 1
        with cluster.producer() as producer:
            producer.send("named", b"k", b"b")
        for each in (cluster.describe_topic, cluster.history, cluster.describe_logs):
            each("named")
        cluster.list_groups()
        cluster.metrics("named")
        cluster.openmetrics()
        cluster.describe_quorum()
        cluster.run_controller()
        cluster.replicate()
        cluster.maintain()
        cluster.fsck()
        with Cluster.open(cluster.root, as_of=cluster.image.offset) as past:
            past.read("named")
        cluster.delete_topic("named")

    operations = sent(work)

    assert operations.keys() >= {
        *("open", "command", "append", "read", "consume", "control", "probe", "replicate"),
        *("retain", "compact", "upkeep", "clean", "fsck", "log", "describe", "quorum"),
    }
    assert "(other)" not in operations


def test_requests_are_among_the_figures(cluster):
    cluster.create_topic("figures", partitions=1, replication_factor=3)
    cluster.append("figures", records("a"))

    [line] = [
        each
        for each in cluster.openmetrics().splitlines()
        if each.startswith('kafka_on_spark_ledger_requests_total{kind="PUT",operation="append"}')
    ]

    assert float(line.rpartition(" ")[2]) >= 6
