"""Brokers that leave, partitions and records that go, replicas that move: by request, on disks."""

import pytest

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from tests.cluster.disks import new_disks, partition_of, records, values_of


@pytest.fixture
def disks():
    with new_disks(brokers=4) as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3], 1: [2, 3, 1]})
    disks.cluster.append("orders", records(b"a", b"b", b"c"))
    return disks.cluster


def number_with_records(cluster):
    return max((0, 1), key=lambda number: partition_of(cluster, "orders", number).high_watermark)


def test_records_below_an_offset_are_deleted_on_every_replica(disks, cluster):
    number = number_with_records(cluster)
    cluster.append("orders", records(b"d"))

    starts = cluster.delete_records({("orders", number): 3})

    assert starts == {("orders", number): 3}
    assert values_of(cluster, "orders") == [b"d"]
    assert [disks.values_on(each, "orders", number) for each in (1, 2, 3)] == [[b"d"]] * 3
    assert cluster.offsets("orders")[number].log_start_offset == 3
    assert cluster.fsck().findings == ()


def test_all_committed_records_are_deleted_by_minus_one_and_offsets_go_on(disks, cluster):
    number = number_with_records(cluster)

    assert cluster.delete_records({("orders", number): -1}) == {("orders", number): 3}

    assert values_of(cluster, "orders") == []
    assert cluster.append("orders", records(b"d")).partitions[number].base_offset == 3
    assert values_of(cluster, "orders") == [b"d"]


# fmt: off
DELETIONS = [
    pytest.param({("orders", 0): 0, ("orders", 1): 9},  OffsetOutOfRangeError,        "can't start at 9: give an offset from 0", id="above-the-high-watermark"),
    pytest.param({("orders", 0): 0, ("orders", 1): -2}, OffsetOutOfRangeError,        "can't start at -2",                       id="negative"),
    pytest.param({("orders", 7): 0},                    UnknownTopicOrPartitionError, "topic 'orders' has no partition 7",       id="no-partition"),
    pytest.param({"orders": 0},                         InvalidRequestError,          r"'orders' names no partition: give topic and number", id="no-pair"),
    pytest.param({("orders", "0"): 0},                  InvalidRequestError,          "names no partition",                      id="no-number"),
    pytest.param({("orders", 0): "5"},                  InvalidRequestError,          r"records of \('orders', 0\) are deleted can't be '5': give a whole", id="no-offset"),
    pytest.param({("others", 0): 0},                    UnknownTopicOrPartitionError, "there is no topic 'others'",              id="no-topic"),
]
# fmt: on


@pytest.mark.parametrize("offsets, error, words", DELETIONS)
def test_deleting_records_is_refused_as_a_whole(cluster, offsets, error, words):
    before = cluster.image.offset

    with pytest.raises(error, match=words):
        cluster.delete_records(offsets)

    assert cluster.image.offset == before
