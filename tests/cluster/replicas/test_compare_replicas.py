"""Replicas are compared by what is on the disks; each way to differ is found and named."""

from kafka_on_spark.metadata.records import BrokerState
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


def test_equal_replicas_have_no_differences_and_all_their_files_were_read(disks):
    topic_of_three_batches(disks)

    [comparison] = compare_replicas(disks.cluster.image, "orders", is_deep=True)

    segments = disks.folder(1, "orders").glob("*.parquet")
    assert comparison.differences == ()
    assert (comparison.replica_count, comparison.batch_count) == (3, 3)
    assert comparison.read_bytes == 3 * sum(file.stat().st_size for file in segments)


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


def test_changed_byte_in_one_file_is_found(disks):
    topic_of_three_batches(disks)
    file = next(disks.folder(2, "orders").glob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1

    file.write_bytes(content)

    [difference] = differences(disks)
    assert "orders-0 on broker 2" in difference
    assert "not what its name says" in difference


def test_replica_that_is_short_of_the_high_watermark_is_found(disks):
    topic_of_three_batches(disks)
    folder = disks.folder(2, "orders")
    copy = disks.leave_unreadable(folder)
    disks.cluster.append("orders", records(b"d"))

    disks.restore(copy, folder)

    found = differences(disks)
    assert any("ends at 3, below the high watermark 4" in each for each in found)


def test_disk_that_is_away_is_a_difference_and_an_event_of_its_broker(disks):
    topic_of_three_batches(disks)
    disks.take_away(1)
    disks.cluster.run_controller()

    found = differences(disks)

    disks.give_back(1)
    disks.cluster.run_controller()
    assert len(found) == 1
    assert "orders-0 on broker 1" in found[0]
    events = [each for each in disks.cluster.broker_history() if not each.is_registration]
    assert [(each.broker_id, each.state) for each in events] == [
        (1, BrokerState.FENCED),
        (1, BrokerState.ACTIVE),
    ]
    assert events[0].time < events[1].time
    assert "probe failed" in events[0].cause
