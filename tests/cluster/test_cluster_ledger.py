"""What a cluster asks of its roots is in its ledger, by operation and topic, and in its figures."""

import threading

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.ports.ledger import METADATA, OTHER, RequestKind
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


def asked(report, operation, topic):
    found = [each for each in report.rows if (each.operation, each.topic) == (operation, topic)]
    return found[0].requests if found else {}


def of_no_operation(report):
    return [each for each in report.rows if each.operation == OTHER]


def test_an_append_to_three_replicas_puts_three_segments_and_three_commits(cluster):
    cluster.create_topic("orders", partitions=1, replication_factor=3)
    cluster.append("orders", records("first"))
    before = cluster.ledger()

    cluster.append("orders", records("a", "b"))

    after = cluster.ledger()
    put = RequestKind.PUT
    assert asked(after, "append", "orders")[put] - asked(before, "append", "orders")[put] == 6
    assert asked(after, "append", METADATA)[put] - asked(before, "append", METADATA)[put] == 2


def test_each_operation_is_named(cluster):
    cluster.create_topic("named", partitions=1, replication_factor=3)
    cluster.append("named", records("a"))
    cluster.read("named")
    with cluster.consumer("named", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(120_000).num_rows == 1
    with cluster.producer() as producer:
        producer.send("named", None, b"b")
    cluster.run_controller()
    cluster.replicate()
    cluster.maintain()
    cluster.fsck()

    report = cluster.ledger()

    operations = {each.operation for each in report.rows if each.requests}
    assert operations >= {
        *("open", "command", "append", "read", "consume", "control", "probe", "replicate"),
        *("retain", "compact", "upkeep", "clean", "fsck", "log"),
    }
    assert report.not_counted
    assert sum(each.cpu_ms for each in report.rows) > 0


def test_a_cluster_that_is_open_asks_nothing_that_no_operation_has_begun(cluster):
    """What stands under no operation is of the creations in this process, and of other clusters."""
    before = of_no_operation(cluster.ledger())

    cluster.create_topic("begun", partitions=2, replication_factor=2)
    cluster.append("begun", records("a"))
    cluster.read("begun")
    cluster.describe_topic("begun")
    cluster.history("begun")
    cluster.describe_logs("begun")
    cluster.offsets("begun")
    cluster.list_groups()
    cluster.metrics("begun")
    cluster.openmetrics()
    cluster.describe_quorum()
    cluster.run_controller()
    cluster.replicate()
    cluster.maintain()
    cluster.fsck()
    cluster.delete_topic("begun")
    assert cluster.image.offset > 0

    assert of_no_operation(cluster.ledger()) == before


def test_what_a_loop_over_a_consumer_commits_is_the_consumers_as_what_a_poll_commits(cluster):
    cluster.create_topic("looped", partitions=1, replication_factor=1)
    cluster.append("looped", records(*(f"{each}" for each in range(50))))
    options = {"group": "looping", "auto_offset_reset": "earliest", "auto_commit_interval_ms": 0}

    with cluster.consumer("looped", **options) as consumer:
        next(consumer)  # the member has joined
        before = cluster.ledger()
        for record in consumer:
            if record.offset == 40:
                break
            threading.Event().wait(0.01)
        after = cluster.ledger()

    put = RequestKind.PUT
    assert asked(after, "consume", METADATA)[put] > asked(before, "consume", METADATA)[put]
    assert of_no_operation(after) == of_no_operation(before)


def test_the_past_has_a_ledger_too(cluster, disks):
    cluster.create_topic("past", partitions=1, replication_factor=3)
    cluster.append("past", records("a"))

    with Cluster.open(disks.cluster.root, as_of=cluster.image.offset) as past:
        past.read("past")
        report = past.ledger()

    assert asked(report, "read", "past")[RequestKind.GET] == 1
    assert asked(report, "append", "past") == {}


def test_the_ledger_is_among_the_figures(cluster):
    cluster.create_topic("figures", partitions=1, replication_factor=3)
    cluster.append("figures", records("a"))

    lines = cluster.openmetrics().splitlines()

    [line] = [
        each
        for each in lines
        if each.startswith("kafka_on_spark_ledger_requests_total")
        and 'operation="append"' in each
        and 'topic="figures"' in each
        and 'kind="PUT"' in each
    ]
    assert float(line.rpartition(" ")[2]) >= 6
