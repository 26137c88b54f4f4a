"""Replicas are compared by what is on the disks; those that differ are named."""

from kafka_on_spark.observe.replicas import compare_replicas
from tests.cluster.disks import records
from tests.forging import change_header


def test_by_digests_no_file_is_read_and_the_replica_with_other_records_is_named(disks):
    disks.cluster.create_topic("orders", partitions=1, replication_factor=3)
    disks.cluster.append("orders", records(b"a"))
    for broker_id in (1, 2):
        change_header(disks.folder(broker_id, "orders"), "partition_count", "7")

    [comparison] = compare_replicas(disks.open().image, "orders")

    assert comparison.read_bytes == 0
    assert [each.split(":")[0] for each in comparison.differences] == [
        "orders-0 on broker 1",
        "orders-0 on broker 2",
    ]
