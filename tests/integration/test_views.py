"""`Cluster.view`: a topic as the JVM scans it, with pruned columns and files, and frozen."""

import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from chispa import assert_df_equality

from kafka_on_spark import Cluster
from tests.cluster.disks import new_disks
from tests.integration.frames import source

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
    """The cluster, opened with Spark."""
    return disks.opened[1]


def values_of(frame):
    rows = frame.select("partition", "offset", "value").collect()
    return [bytes(row.value) for row in sorted(rows)]


def plan_of(frame):
    return frame._jdf.queryExecution().explainString(
        frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )


def scanned_columns(frame):
    """Return the columns that the scans of a query read from files."""
    found = re.findall(r"ReadSchema: struct<(.*)>", plan_of(frame))
    assert found, plan_of(frame)
    return {name.split(":")[0] for each in found for name in each.split(",") if name}


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


def test_a_query_reads_the_columns_that_it_asks_for(cluster):
    view = cluster.view("orders", start={0: 4, 1: 0})

    assert scanned_columns(view.select("value")) == {"value"}
    assert scanned_columns(view.select("timestamp").where("partition = 1")) == {"timestamp"}
    assert scanned_columns(view) == {"offset_delta", "timestamp", "key", "value"}


def test_conditions_on_time_and_partition_leave_out_segments(cluster):
    view = cluster.view("orders", "pruned_orders")
    spark = view.sparkSession

    late = spark.sql("SELECT value FROM pruned_orders WHERE timestamp >= '2026-05-01T14:00:00Z'")
    one = spark.sql("SELECT value FROM pruned_orders WHERE partition = 1")

    assert scanned_files(view) == 6
    assert (scanned_files(late), late.count()) == (2, 8)
    assert (scanned_files(one), one.count()) == (3, 12)
    assert "PushedFilters: [IsNotNull(timestamp), GreaterThanOrEqual(timestamp" in plan_of(late)
