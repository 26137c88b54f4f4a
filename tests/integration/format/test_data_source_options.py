"""Options of the source where Spark has a part in them: tasks, triggers, restarts, progress."""

import time
from datetime import UTC, datetime

import pytest

import kafka_on_spark
from kafka_on_spark.produce.records import Record
from tests.cluster.disks import new_disks
from tests.integration.format.frames import WAIT_S_MAX, Batches

pytestmark = pytest.mark.integration


@pytest.fixture
def disks():
    with new_disks() as disks:
        yield disks


def given(reader, disks, **options):
    """Return what a reader loads of the cluster; options by their own names."""
    reader = reader.format("kafka_on_spark").option("cluster", str(disks.metadata_root))
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader.load()


def appended(cluster, topic, count, *, partition=0, second=0):
    """Append records a second apart; their values are their places."""
    cluster.append(
        topic,
        [
            Record(
                None,
                b"%d" % number,
                timestamp=datetime.fromtimestamp(second + number, UTC),
                partition=partition,
            )
            for number in range(count)
        ],
    )


def test_a_stream_finds_topics_and_partitions_later_in_batches_of_a_limit(spark, disks, tmp_path):
    batches, cluster = Batches(), disks.cluster
    cluster.create_topic("a1", replication_factor=1)
    frame = given(
        spark.readStream,
        disks,
        subscribePattern="a.",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=4,
    )
    appended(cluster, "a1", 6)
    batches.run(frame, tmp_path)
    assert [len(values) for values in batches.values] == [4, 2]

    cluster.create_topic("a2", replication_factor=1)
    cluster.add_partitions("a1", to=2)
    appended(cluster, "a2", 1)
    appended(cluster, "a1", 2, partition=1)
    batches.run(frame, tmp_path)

    assert sorted(batches.values[-1]) == [b"0", b"0", b"1"]
    assert len(batches.seen) == 9


def wait_for(is_done):
    """Wait for what another process does, which must come."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_done():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def test_lag_stands_in_a_querys_progress_and_is_told_to_a_listener(spark, disks, tmp_path):
    seen = []

    def report(progress, figures):
        seen.append((str(progress.runId), figures))

    def seen_of_query():
        # Spark tells in its own time: of the queries before, too.
        return [figures for run, figures in seen if run == query.runId]

    listener = kafka_on_spark.LagListener(report)
    disks.cluster.create_topic("t", partitions=2, replication_factor=1)
    appended(disks.cluster, "t", 8)
    options = {"subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 2}
    spark.streams.addListener(listener)
    try:
        query = Batches().start(
            given(spark.readStream, disks, **options), tmp_path, availableNow=True
        )
        assert query.awaitTermination(WAIT_S_MAX)
        last = len(query.recentProgress)
        wait_for(lambda: len(seen_of_query()) >= last)
    finally:
        spark.streams.removeListener(listener)

    lags = [kafka_on_spark.lag(each)["maxOffsetsBehindLatest"] for each in query.recentProgress]
    assert lags == ["6", "4", "2", "0"]
    assert [each["maxOffsetsBehindLatest"] for each in seen_of_query()] == lags
    assert kafka_on_spark.lag(query.lastProgress)["avgOffsetsBehindLatest"] == "0.0"
