"""A consumer against a real cluster: what it reads, in which order, and what comes and goes."""

from datetime import UTC, datetime

import pytest

from kafka_on_spark import Record
from tests.cluster.consuming.polled import SOON, values
from tests.cluster.disks import records


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
