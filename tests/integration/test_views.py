"""`Cluster.view`: a topic as the JVM scans it, with pruned columns and files, and frozen."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.spark.jvm import check_files, reader_settings
from kafka_on_spark.store.storage_options import StorageOptions
from tests.cluster.disks import new_disks, records
from tests.integration.format.frames import source

pytestmark = pytest.mark.integration

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def rows_at(hour, *values, partition=0):
    """Return records with the timestamps of one hour, as Arrow."""
    times = [NOON + hour * HOUR + timedelta(minutes=place) for place in range(len(values))]
    return pa.table(
        {
            "key": pa.array([b"k"] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array(times, pa.timestamp("us", tz="UTC")),
            "partition": pa.array([partition] * len(values), pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def disks(spark):
    """Two partitions, three appends each an hour apart; offsets 0 and 1 of the first deleted,
    in the middle of a segment; of the second a record that is not committed."""
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3], 1: [2, 3, 1]})
        for hour in range(3):
            for partition in (0, 1):
                values = [b"%d-%d-%d" % (partition, hour, place) for place in range(4)]
                cluster.append("orders", rows_at(hour, *values, partition=partition))
        cluster.delete_records({("orders", 0): 2})
        cluster.append("orders", rows_at(3, b"uncommitted", partition=1), acks=1)
        disks.opened.append(Cluster.open(disks.metadata_root, spark))
        yield disks


@pytest.fixture(scope="module")
def cluster(disks):
    return disks.opened[1]


def values_of(frame):
    rows = frame.select("partition", "offset", "value").collect()
    return [bytes(row.value) for row in sorted(rows)]


def plan_of(frame):
    return frame._jdf.queryExecution().explainString(
        frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )


def scanned_files(frame):
    """Return how many files the scans of a query read: what Spark's own metric says."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    found = [leaves.apply(place) for place in range(leaves.size())]
    scans = [each for each in found if each.getClass().getSimpleName() == "FileSourceScanExec"]
    return sum(each.metrics().apply("numFiles").value() for each in scans)


def test_a_view_has_the_rows_and_columns_of_the_source(spark, disks, cluster):
    view = cluster.view("orders")

    assert_df_equality(
        view,
        source(spark, disks, "orders"),
        ignore_row_order=True,
        ignore_nullable=True,
    )
    assert view.count() == 22


@pytest.mark.long
def test_conditions_on_time_and_partition_leave_out_segments(cluster):
    view = cluster.view("orders", "pruned_orders")  # its first segment is cut by the log start
    spark = view.sparkSession

    late = spark.sql("SELECT value FROM pruned_orders WHERE timestamp >= '2026-05-01T14:00:00Z'")
    one = spark.sql("SELECT value FROM pruned_orders WHERE partition = 1")

    assert scanned_files(view) == 6
    assert (scanned_files(late), late.count()) == (2, 8)
    assert (scanned_files(one), one.count()) == (3, 12)
    assert "PushedFilters: [IsNotNull(timestamp), GreaterThanOrEqual(timestamp" in plan_of(late)


@pytest.mark.long
def test_offsets_and_moments_leave_out_segments_and_cut_those_at_the_ends(cluster):
    offsets = cluster.view("orders", start={0: 5, 1: 8}, end={0: 9})
    moments = cluster.view("orders", start=NOON + 2 * HOUR, end=NOON + 2 * HOUR + HOUR / 30)
    both = cluster.view("orders", start={0: 8}, end=NOON + HOUR)

    assert values_of(offsets) == [
        b"0-1-1", b"0-1-2", b"0-1-3", b"0-2-0", b"1-2-0", b"1-2-1", b"1-2-2", b"1-2-3"
    ]  # fmt: skip
    assert scanned_files(offsets) == 3
    assert values_of(moments) == [b"0-2-0", b"0-2-1", b"1-2-0", b"1-2-1"]
    assert scanned_files(moments) == 2
    assert values_of(both) == [b"1-0-%d" % place for place in range(4)]


@pytest.mark.long
def test_a_view_stays_as_it_was_made(spark):
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        cluster.append("orders", records(b"a", b"b", b"c"))
        cluster.append("orders", records(b"d"))
        disks.opened.append(Cluster.open(disks.metadata_root, spark))
        view = disks.opened[1].view("orders")
        disks.take_away(2, 3)
        cluster.append("orders", records(b"cut"), acks=1)
        disks.take_away(1)
        disks.give_back(2, 3)
        cluster.run_controller()
        cluster.append("orders", records(b"e"))
        disks.give_back(1)
        cluster.run_controller()
        cluster.replicate()
        cluster.delete_records({("orders", 0): 4})

        assert values_of(view) == [b"a", b"b", b"c", b"d"]
        assert values_of(disks.opened[1].view("orders")) == [b"e"]


@pytest.fixture
def alone(spark):
    """A topic of one partition on three brokers, and the cluster opened with Spark."""
    with new_disks() as disks:
        disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        for value in (b"a" * 999, b"b" * 999):
            disks.cluster.append("orders", records(value))
        disks.opened.append(Cluster.open(disks.metadata_root, spark))
        yield disks


def segment_on(disks, broker_id, value):
    """Return the file that holds the record of `value`, whose bytes are all one letter."""
    table = disks.folder(broker_id, "orders")
    [found] = [path for path in table.glob("*.parquet") if value in values_in(path)]
    return found


def values_in(path):
    return pq.read_table(path).column("value").to_pylist()


def test_a_view_of_the_past_has_what_was_committed_then(spark, alone):
    then = next(
        batch.end_offset
        for batch in alone.cluster._metadata.history()
        if any(getattr(record, "high_watermark", None) == 1 for record in batch.records)
    )
    with Cluster.open(alone.metadata_root, spark, as_of=then) as past:
        assert values_of(past.view("orders")) == [b"a" * 999]


def test_a_segment_that_one_replica_has_lost_is_read_from_another(alone):
    segment_on(alone, 1, b"b" * 999).unlink()

    view = alone.opened[1].view("orders")

    assert values_of(view) == [b"a" * 999, b"b" * 999]
    assert {name.split("/broker-")[1][0] for name in view.inputFiles()} == {"1", "2"}


@pytest.mark.long
def test_timestamps_are_the_appends_where_the_topic_says_so_and_headers_come_when_asked(spark):
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        cluster.append("orders", rows_at(0, b"a", b"b"))
        cluster.alter_topic_configs("orders", {"message.timestamp.type": "LogAppendTime"})
        headers = [("trace", b"1"), ("trace", None)]
        cluster.append("orders", [{"value": b"c", "headers": headers}, {"value": None}])
        cluster.delete_records({("orders", 0): 1})
        disks.opened.append(Cluster.open(disks.metadata_root, spark))
        zone = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
        try:
            view = disks.opened[1].view("orders", has_headers=True)

            assert_df_equality(
                view,
                source(spark, disks, "orders", includeHeaders="true"),
                ignore_row_order=True,
                ignore_nullable=True,
            )
            assert [row.timestampType for row in view.sort("offset").collect()] == [0, 1, 1]
            old = view.where("timestamp < '2026-06-01T00:00:00Z'")
            assert (values_of(old), scanned_files(old)) == ([b"b"], 1)
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)


def test_what_a_view_can_not_be_made_of_is_said_in_a_sentence(spark, disks, cluster):
    with pytest.raises(
        InvalidRequestError, match="a view is scanned by Spark: open the cluster with"
    ):
        disks.cluster.view("orders")
    with pytest.raises(InvalidRequestError, match="a view can't be named 'a-b': give letters"):
        cluster.view("orders", "a-b")
    with pytest.raises(InvalidRequestError, match="it has no time zone; give one"):
        cluster.view("orders", start=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidRequestError, match="this Spark can't scan gs:// itself: give it"):
        reader_settings(spark, ["/tmp/meta", "gs://lake/broker-1"], StorageOptions())
    with pytest.raises(
        InvalidRequestError,
        match=r"can't scan s3a:// itself: start it with spark.jars.packages="
        r"org.apache.hadoop:hadoop-aws:\d+\.\d+\.\d+ \(the version of its Hadoop\) and",
    ):
        reader_settings(spark, ["s3://lake/broker-1"], StorageOptions())


def test_a_store_that_spark_does_not_reach_is_said_in_a_sentence_before_it_is_scanned(spark):
    reached = ["file:///gone/1.parquet", "file:///gone/2.parquet"]

    with pytest.raises(InvalidRequestError) as refused:
        check_files(spark, reached, {}, StorageOptions())
    with pytest.raises(InvalidRequestError, match=r"packages=org.apache.hadoop:hadoop-azure:\d"):
        check_files(spark, ["abfss://c@account/1.parquet"], {}, StorageOptions())

    said = refused.value.message
    assert said.startswith("Spark itself can't read file:// (java.io.FileNotFoundException: ")
    assert "/gone/1.parquet" in said
    assert (
        "tell its session the endpoint and the credentials by spark.hadoop.*, or read with" in said
    )
