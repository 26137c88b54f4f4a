"""The documented queries in Spark SQL give what `Cluster.history` gives."""

import pytest

from kafka_on_spark.observe import tables
from tests.cluster.disks import new_disks, records

pytestmark = pytest.mark.integration


def test_the_documented_queries_run_in_spark_and_agree_with_the_history(spark):
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        cluster.create_topic("single", replica_assignment={0: [1]})
        cluster.append("orders", records(b"a"))
        disks.take_away(1)
        cluster.run_controller()
        table = spark.read.format("delta").load(cluster.metadata_table)
        table.createOrReplaceTempView("metadata")

        changes = spark.sql(tables.ISR_HISTORY).collect()
        [failover] = [
            each for each in spark.sql(tables.DECISIONS).collect() if "probe failed" in each.cause
        ]

        assert [
            (each.topic, each.partition, each.leader, tuple(each.isr), each.metadata_offset)
            for each in changes
        ] == [
            (each.topic, each.partition, each.leader, each.isr, each.metadata_offset)
            for each in cluster.history()
        ]
        assert (failover.partitions, failover.topics) == (3, 2)
