"""Replicas move, are measured and removed, and records go, by tasks on Spark's executors."""

import pytest

from kafka_on_spark import Cluster
from tests.cluster.control.test_cluster_reassignment import (
    QUICK,
    assert_only_assigned_tables,
    assert_sound,
    finish,
)
from tests.cluster.disks import new_disks, partition_of, values_of

pytestmark = pytest.mark.integration


def test_a_topic_is_planned_moved_cut_and_deleted_on_spark(spark):
    with new_disks(brokers=4, configs={**QUICK, "min.insync.replicas": 1}) as disks:
        cluster = Cluster.open(disks.metadata_root, spark=spark)
        disks.opened.append(cluster)
        cluster.create_topic("orders", replica_assignment={0: [1, 2], 1: [2, 1]})
        for number in (0, 1):
            rows = [{"value": b"%d" % each, "partition": number} for each in range(3)]
            cluster.append("orders", rows)
        plan = cluster.plan_reassignment(["orders"], brokers=[3, 4])
        assert (len(plan.moves), plan.unmeasured) == (2, ())
        assert plan.bytes_moved > 0

        cluster.reassign(plan.targets)
        finish(cluster)
        cluster.delete_records({("orders", 0): 2})
        cluster.run_controller()

        assert {*partition_of(cluster, "orders").replicas} == {3, 4}
        assert values_of(cluster, "orders") == [b"2", b"0", b"1", b"2"]
        assert_only_assigned_tables(disks, cluster)
        assert_sound(disks)

        cluster.delete_topic("orders")
        assert cluster.run_controller().tables_removed == 4
        assert not [each for number in (1, 2, 3, 4) for each in disks.root(number).glob("orders-*")]
