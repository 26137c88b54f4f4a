"""A cluster that is served for ever, with its tasks on Spark's executors."""

import pytest

from kafka_on_spark.console.serving import ServedCluster
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import isr_of, new_disks, records
from tests.cluster.serving.processes import wait_for
from tests.cluster.serving.test_serve import QUICK

pytestmark = pytest.mark.integration

END_MS = 120_000


def test_rounds_of_a_served_cluster_copy_by_spark_and_leave_the_session_when_it_ends(spark):
    last_before = last_job(spark)
    with new_disks(configs=QUICK) as disks:
        disks.cluster.create_topic("orders", replication_factor=3)
        served = ServedCluster(str(disks.metadata_root), StorageOptions(), spark)
        served.begin()
        try:
            disks.cluster.append("orders", records(b"a", b"b"), acks="1")

            wait_for(lambda: disks.cluster.offsets("orders")[0].high_watermark == 2)
            wait_for(lambda: isr_of(disks.cluster, "orders") == [1, 2, 3])
            wait_for(lambda: served.round_count)
        finally:
            is_clean = served.end(END_MS)

        assert (is_clean, served.failure) == (True, None)
        assert disks.cluster.image.controller.controller_id is None  # it has resigned
        assert disks.cluster.fsck().findings == ()
    assert last_job(spark) > last_before
    assert spark.range(3).count() == 3


def last_job(spark):
    """Return the number of the newest job that the session has run."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(), default=-1)
