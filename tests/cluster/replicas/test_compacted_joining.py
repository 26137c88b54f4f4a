"""Replicas of a compacted topic join the ISR, and a leader that is not compacted is read, without
upkeep: rounds of replication, and readers on executors, do what must be done first."""

import shutil
from functools import partial

import pytest
from pyspark import cloudpickle

from kafka_on_spark.query.options.source_options import parse_source
from kafka_on_spark.query.reads.read_order import plan_reads
from kafka_on_spark.service.read.view_plan import TimeRange, files_of
from kafka_on_spark.spark.format.source import BatchReader
from kafka_on_spark.storage.access.storage_options import StorageOptions
from kafka_on_spark.storage.replicas.view_table import size_finder
from tests.cluster.disks import isr_of, new_disks
from tests.cluster.replicas.test_cluster_compaction import (
    CONFIGS,
    LEFT,
    append,
    check_equal,
    contents,
    elected_uncleanly,
    is_whole,
    read,
    registered,
    uuids_of,
)
from tests.cluster.replicas.test_cluster_failover import REPLICAS


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("prices", replica_assignment=REPLICAS, configs=CONFIGS)
        yield disks


@pytest.fixture
def cluster(disks):
    """A cluster in which no round and no pass does any upkeep of its own accord."""
    disks.cluster.alter_cluster_configs({"log.cleaner.share": "0"})
    disks.cluster.alter_topic_configs("prices", {"delete.retention.ms": "86400000"})
    return disks.cluster


def compact(cluster):
    for _ in range(3):
        cluster.maintain()
    assert registered(cluster).cleaned_below == registered(cluster).compacted_below > 0


def test_a_replica_that_is_made_anew_joins_by_rounds_of_replication_alone(cluster, disks):
    append(cluster, "a1 b1 a2", "c1 b2", "a3")
    whole = contents(cluster)[1]
    compact(cluster)
    before = uuids_of(cluster)
    shutil.rmtree(disks.folder(3, "prices"))

    for _ in range(3):
        cluster.replicate(is_sweep=True)

    assert uuids_of(cluster)[3] != before[3]
    assert is_whole(cluster)
    check_equal(cluster, whole)


def test_one_of_a_log_that_retention_has_emptied_joins_too(cluster, disks):
    cluster.alter_topic_configs("prices", {"cleanup.policy": "compact,delete"})
    append(cluster, "a1 b1", "a2")
    compact(cluster)
    cluster.delete_records({("prices", 0): 3})
    cluster.replicate(is_sweep=True)
    shutil.rmtree(disks.folder(3, "prices"))

    for _ in range(3):
        cluster.replicate(is_sweep=True)

    assert isr_of(cluster, "prices") == [1, 2, 3]
    assert read(cluster) == []


def test_a_replica_that_was_away_joins_by_the_first_round_that_fetches(cluster, disks):
    append(cluster, "a1 b1", "a2", "-b c1")
    whole = contents(cluster)[1]
    disks.take_away(3)
    cluster.run_controller()
    compact(cluster)
    disks.give_back(3)
    cluster.run_controller()
    assert isr_of(cluster, "prices") == [1, 2]

    assert cluster.replicate().is_caught_up

    assert is_whole(cluster)
    check_equal(cluster, whole)


def test_a_task_that_reads_a_leader_that_is_not_compacted_compacts_it(disks):
    elected_uncleanly(disks)
    given = {"cluster": str(disks.metadata_root), "subscribe": "prices"}
    reader = BatchReader(parse_source(given, is_stream=False))
    tasks = [(cloudpickle.dumps(reader), each) for each in reader.partitions()]

    rows = [
        row
        for task, part in tasks
        for batch in cloudpickle.loads(task).read(part)
        for row in batch.to_pylist()
    ]

    assert [row["offset"] for row in rows] == [offset for offset, _, _ in LEFT]


def test_a_view_of_a_leader_that_is_not_compacted_has_it_compacted(disks):
    cluster = elected_uncleanly(disks)
    services = cluster._services
    [order] = plan_reads(cluster.image, "prices")
    plan = partial(
        files_of, order, services.replicas, size_finder(StorageOptions(None)), TimeRange()
    )

    files = plan(services.finish_compaction)

    assert {file.address.broker_id for file in files} == {3}
