"""A consumer against a real cluster: what it reads, in which order, and what comes and goes."""

import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from kafka_on_spark import Record
from kafka_on_spark.base.errors import OffsetOutOfRangeError, UnknownTopicOrPartitionError
from tests.cluster.consuming.polled import SOON, values
from tests.cluster.disks import records

UNCLOSED = """
import sys
from kafka_on_spark import Cluster

cluster = Cluster.open(sys.argv[1])
cluster.append(sys.argv[2], [("k", "a"), ("k", "b")])
consumer = cluster.consumer(sys.argv[2], auto_offset_reset="earliest")
print(next(consumer).value.decode())
"""


@pytest.mark.smoke
def test_it_reads_what_is_there_and_what_comes(cluster, topic):
    cluster.append(topic, records(b"a", b"b"))

    with cluster.consumer(topic, auto_offset_reset="earliest") as consumer:
        assert values(consumer.poll(SOON)) == [b"a", b"b"]
        assert consumer.poll(0).num_rows == 0
        cluster.append(topic, records(b"c"))
        assert values(consumer.poll(SOON)) == [b"c"]
        assert consumer.position((topic, 0)) == 3


def test_a_table_has_the_columns_of_a_read_and_the_epochs(cluster, topic):
    moment = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    headers = [("h", b"1"), ("n", None)]
    cluster.append(topic, [Record(b"k", b"v", headers=headers, timestamp=moment)])

    with cluster.consumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=0) as consumer:
        table = consumer.poll(SOON)
        assert table.drop_columns("leaderEpoch").equals(cluster.read(topic))
        consumer.seek((topic, 0), 0)
        record = next(consumer)

    place = (topic, 0, 0, record.timestamp_us, 0)
    assert record == (*place, b"k", b"v", [("h", b"1"), ("n", None)], record.leader_epoch)
    assert record.timestamp == moment


def test_each_record_says_under_which_leadership_it_was_appended(disks):
    cluster = disks.cluster
    cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    cluster.append("orders", records(b"a", b"b"))
    before = cluster.image.topic("orders").partitions[0].leader_epoch
    disks.take_down(1)
    cluster.append("orders", records(b"c"))
    after = cluster.image.topic("orders").partitions[0].leader_epoch

    with cluster.consumer(
        "orders", auto_offset_reset="earliest", consumer_timeout_ms=0
    ) as consumer:
        table = consumer.poll(SOON)
        consumer.seek_to_beginning()
        epochs = [record.leader_epoch for record in consumer]

    assert before < after
    assert epochs == [before, before, after]
    assert table.column("leaderEpoch").to_pylist() == epochs[: table.num_rows]


def test_rows_of_a_consumer_can_be_appended_again(cluster, new_topic):
    topic, copy = new_topic(), new_topic()
    cluster.append(topic, records(b"a", b"b"))

    with cluster.consumer(topic, auto_offset_reset="earliest") as consumer:
        cluster.append(copy, consumer.poll(SOON).drop_columns("topic"))

    assert cluster.read(copy).column("value").to_pylist() == [b"a", b"b"]


def test_another_process_wakes_it(disks):
    disks.cluster.create_topic("orders", replication_factor=3)
    other = disks.open()
    with other.consumer("orders", auto_offset_reset="earliest") as consumer:
        assert consumer.poll(0).num_rows == 0
        timer = threading.Timer(0.3, disks.cluster.append, ("orders", records(b"a")))
        timer.start()

        assert values(consumer.poll(SOON)) == [b"a"]
        timer.join()


def test_by_default_it_begins_at_the_end(cluster, topic):
    cluster.append(topic, records(b"a"))

    with cluster.consumer(topic) as consumer:
        assert consumer.poll(0).num_rows == 0
        cluster.append(topic, records(b"b"))
        assert values(consumer.poll(SOON)) == [b"b"]


def test_each_partition_keeps_its_order_and_none_waits_for_ever(cluster, new_topic):
    topic = new_topic(partitions=5)
    for number in range(4):
        cluster.append(topic, [(str(each), f"{each}-{number}") for each in range(40)])

    seen = {}
    with cluster.consumer(topic, auto_offset_reset="earliest", max_poll_records=7) as consumer:
        for _ in range(200):
            table = consumer.poll(0)
            assert table.num_rows <= 7
            for row in table.to_pylist():
                seen.setdefault(row["partition"], []).append(row["offset"])

    assert sum(map(len, seen.values())) == 160
    assert all(each == list(range(len(each))) for each in seen.values())


def test_records_that_were_deleted_are_passed_or_told(cluster, topic):
    cluster.append(topic, records(b"a", b"b", b"c"))
    cluster.delete_records({(topic, 0): 2})

    with cluster.consumer(topic, auto_offset_reset="earliest") as consumer:
        consumer.seek((topic, 0), 0)
        assert values(consumer.poll(SOON)) == [b"c"]
    with cluster.consumer(topic, auto_offset_reset="none") as consumer:
        with pytest.raises(OffsetOutOfRangeError, match="has no offset of"):
            consumer.poll(0)
        consumer.seek((topic, 0), 0)
        with pytest.raises(OffsetOutOfRangeError, match="its log start 2"):
            consumer.poll(0)
        consumer.seek((topic, 0), 2)
        assert values(consumer.poll(SOON)) == [b"c"]


def test_a_topic_that_is_deleted_is_told(cluster, topic):
    with cluster.consumer(topic) as consumer:
        cluster.delete_topic(topic)

        with pytest.raises(UnknownTopicOrPartitionError, match=f"there is no topic {topic!r}"):
            consumer.poll(0)


def test_a_process_ends_quietly_with_a_consumer_that_is_in_the_middle_of_a_partition(
    cluster, topic
):
    command = [sys.executable, "-c", UNCLOSED, cluster.root, topic]
    ended = subprocess.run(command, capture_output=True, text=True)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "a\n", "")
