"""Replicas are compared by what is on the disks; each way to differ is found and named."""

from kafka_on_spark.observe.replicas import compare_replicas
from tests.cluster.disks import records
from tests.forging import change_header


def differences(disks, topic="orders"):
    comparisons = compare_replicas(disks.open().image, topic, is_deep=True)
    return [each for comparison in comparisons for each in comparison.differences]


def topic_of_three_batches(disks):
    disks.cluster.create_topic("orders", partitions=1, replication_factor=3)
    for value in (b"a", b"b", b"c"):
        disks.cluster.append("orders", records(value))


def test_by_digests_no_file_is_read_and_the_replica_with_other_records_is_named(disks):
    topic_of_three_batches(disks)
    for broker_id in (1, 2):
        change_header(disks.folder(broker_id, "orders"), "partition_count", "7")

    [comparison] = compare_replicas(disks.open().image, "orders")

    assert comparison.read_bytes == 0
    assert [each.split(":")[0] for each in comparison.differences] == [
        "orders-0 on broker 1",
        "orders-0 on broker 2",
    ]
