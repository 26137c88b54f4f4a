"""A stream, a view and batches of Spark that read while appends, merges, retention, compaction and
cleaning with a short delay go on: nothing is lost, doubled or reordered."""

import threading
import time
from contextlib import contextmanager

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_on_spark import Cluster
from tests.cluster.disks import FAST, new_disks, partition_of
from tests.integration.format.frames import Batches, bytes_of, source, stream

pytestmark = [pytest.mark.integration, pytest.mark.long]

APPENDS = 240
DELAY_MS = 20_000
CONFIGS = {**FAST, "file.delete.delay.ms": DELAY_MS, "merge.min.lag.batches": 1}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}
KEYS = 7


@contextmanager
def at_work(disks, *, every_s=0.05):
    """Do upkeep in a thread, with a handle of its own; whatever it raises is raised at the end."""
    over, failures = threading.Event(), []

    def maintain():
        with Cluster.open(disks.metadata_root) as cluster:
            while not over.wait(every_s):
                try:
                    cluster.replicate()
                    failures.extend(row for row in cluster.maintain().rows if row.error)
                except Exception as error:
                    failures.append(error)

    thread = threading.Thread(target=maintain)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert failures == []


def append(cluster, topic, number):
    cluster.append(topic, [(b"%d" % (number % KEYS), b"%d" % number)])


def seen_by(view):
    return [bytes_of(row.value) for row in view.orderBy("offset").select("value").collect()]


def seen_in_time(made, view):
    """Return what a view has; None: it was read so late that its files are gone by right."""
    try:
        return seen_by(view)
    except (PySparkException, Py4JJavaError):
        if time.monotonic() - made < DELAY_MS / 1000:
            raise
        return None


def streamed(spark, disks, checkpoint):
    """Append to a topic while a stream reads it; return what the stream has seen."""
    batches = Batches()
    query = batches.start(stream(spark, disks, "orders", startingOffsets="earliest"), checkpoint)
    for number in range(APPENDS):
        append(disks.cluster, "orders", number)
    query.processAllAvailable()
    query.stop()
    return batches


def test_a_stream_and_views_read_everything_once_while_files_are_merged_and_deleted(
    spark, tmp_path
):
    with new_disks(configs=CONFIGS) as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        with Cluster.open(disks.metadata_root, spark=spark) as on_spark, at_work(disks):
            batches = Batches()
            query = batches.start(
                stream(spark, disks, "orders", startingOffsets="earliest"), tmp_path / "checkpoint"
            )
            views = []
            for number in range(APPENDS):
                append(cluster, "orders", number)
                if number % 80 == 40:
                    views.append((time.monotonic(), number + 1, on_spark.view("orders")))
                if number % 20 == 0:
                    for made, count, view in views:
                        if time.monotonic() - made < DELAY_MS / 2000:
                            expected = [b"%d" % each for each in range(count)]
                            assert seen_in_time(made, view) in (expected, None)
                    rows = source(spark, disks, "orders").orderBy("offset").collect()
                    assert [bytes_of(row.value) for row in rows] == [
                        b"%d" % each for each in range(number + 1)
                    ]
            query.processAllAvailable()
            query.stop()

        assert batches.seen == [b"%d" % each for each in range(APPENDS)]
        names = list(disks.folder(1, "orders").glob("*-*.parquet"))
        cluster.alter_cluster_configs({"file.delete.delay.ms": 0})
        cluster.maintain()
        assert len(list(disks.folder(1, "orders").glob("*-*.parquet"))) < len(names)
        assert disks.open().fsck(deep=True).findings == ()


def test_a_stream_over_a_retained_topic_skips_nothing_that_is_still_there(spark, tmp_path):
    with new_disks(configs={**CONFIGS, "file.delete.delay.ms": 500}) as disks:
        cluster = disks.cluster
        cluster.create_topic(
            "orders", replica_assignment={0: [1, 2, 3]}, configs={"retention.bytes": 200_000}
        )
        with at_work(disks):
            batches = streamed(spark, disks, tmp_path / "checkpoint")
        cluster.alter_topic_configs("orders", {"retention.bytes": 2_000})
        cluster.maintain()

        assert partition_of(cluster, "orders").log_start_offset > 0
        assert batches.seen == [b"%d" % each for each in range(APPENDS)]
        rest = source(spark, disks, "orders").orderBy("offset").collect()
        left = [bytes_of(row.value) for row in rest]
        assert left == [b"%d" % each for each in range(APPENDS)][-len(left) :]
        assert disks.open().fsck(deep=True).findings == ()


def test_a_stream_over_a_compacted_topic_ends_with_the_last_value_of_each_key(spark, tmp_path):
    with new_disks(configs={**CONFIGS, "file.delete.delay.ms": 500}) as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]}, configs=COMPACTED)
        with at_work(disks):
            batches = streamed(spark, disks, tmp_path / "checkpoint")

        numbers = [int(value) for value in batches.seen]
        assert numbers == sorted(set(numbers)), "in order, and none twice"
        newest = {number % KEYS: number for number in numbers}
        assert newest == {number % KEYS: number for number in range(APPENDS)}
        assert disks.open().fsck(deep=True).findings == ()
