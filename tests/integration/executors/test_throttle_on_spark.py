"""A throttle holds over all tasks of a job on Spark's executors: by a clock that a test moves."""

from datetime import UTC, datetime

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.service.replicate.fetching.fetch_pace import FetchPace
from tests.cluster.disks import isr_of, new_disks
from tests.fakes import FakeClock

pytestmark = pytest.mark.integration

PARTITIONS, BATCHES, FOLLOWERS = 3, 3, 2
BATCHES_A_SECOND = 4
AT = datetime(2013, 1, 1, tzinfo=UTC)  # of all: files are as large as each other


def test_all_tasks_of_a_job_share_one_rate(spark):
    """18 batches of one size at four a second: what is dealt out is all that is copied."""
    with new_disks() as disks:
        cluster = Cluster.open(disks.metadata_root, spark=spark)
        disks.opened.append(cluster)
        cluster.create_topic(
            "orders", replica_assignment={number: [1, 2, 3] for number in range(PARTITIONS)}
        )
        for _ in range(BATCHES):
            rows = [
                {"value": b"v" * 999, "partition": number, "timestamp": AT}
                for number in range(PARTITIONS)
            ]
            cluster.append("orders", rows, acks=1)
        [batch_bytes] = {file.stat().st_size for file in disks.root(1).rglob("*.parquet")}
        clock = FakeClock()
        cluster._services.keeping.pace = FetchPace(clock)
        configs = {
            "follower.replication.throttled.rate": BATCHES_A_SECOND * batch_bytes,
            "replica.fetch.max.bytes": batch_bytes,
        }

        copied = []
        while sum(copied) < PARTITIONS * BATCHES * FOLLOWERS:
            report = cluster.replicate(configs=configs)
            copied.append(report.copied_bytes / batch_bytes)
            clock.advance(1000)
            assert len(copied) <= 10, "a fetch starves"

        assert copied == [4, 4, 4, 4, 2]
        cluster.replicate(configs=configs)
        for number in range(PARTITIONS):
            assert isr_of(cluster, "orders", number) == [1, 2, 3]
            held = [disks.values_on(each, "orders", number) for each in (1, 2, 3)]
            assert held == [[b"v" * 999] * BATCHES] * 3
