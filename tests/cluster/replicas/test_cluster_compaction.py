"""Compacted topics on real disks: what replicas keep, that they are equal, and what is read."""

import pytest

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.consume.reads import Reads
from kafka_on_spark.log.segments import read_segment
from kafka_on_spark.log.state import address_of
from kafka_on_spark.spark.source import Reading
from kafka_on_spark.store.storage_options import StorageOptions
from tests.cluster.disks import new_disks, partition_of
from tests.cluster.format.sources import options
from tests.cluster.replicas.test_cluster_failover import REPLICAS
from tests.fsck.upkept import append_prices
from tests.kept import KeyedRecord, kept_records

CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("prices", replica_assignment=REPLICAS, configs=CONFIGS)
        yield disks


def read(cluster):
    table = cluster.read("prices").to_pylist()
    return [
        (
            row["offset"],
            row["key"].decode(),
            None if row["value"] is None else row["value"].decode(),
        )
        for row in table
    ]


def states(cluster):
    image = cluster.image
    key, partition = next(iter(image.partitions()))
    replicas = cluster._node.replicas
    return {
        broker_id: replicas.open(address_of(image, key, partition, broker_id)).load()
        for broker_id in partition.replicas
        if partition.is_created(broker_id)
    }


def contents(cluster):
    """Return what each replica's files hold: offset, key, and whether it is a tombstone."""
    return {broker_id: contents_of(cluster, broker_id) for broker_id in states(cluster)}


def registered(cluster):
    return next(iter(cluster.image.partitions()))[1].compaction


def check_equal(cluster, whole):
    """Check that every replica holds f(log, C, T) of the whole log."""
    now = registered(cluster)
    expected = kept_records(
        whole, compacted_below=now.compacted_below, tombstones_below=now.tombstones_below
    )
    for broker_id, held in contents(cluster).items():
        assert held == expected, broker_id
    assert all(each.compaction.has_finished(now) for each in states(cluster).values())


def test_a_compacted_log_keeps_the_last_value_of_each_key_at_its_offset(disks):
    cluster = disks.cluster
    append_prices(cluster, "a1 b1 a2", "c1 b2", "a3")
    whole = contents(cluster)[1]

    cluster.maintain()

    assert read(cluster) == [(3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    some = cluster.read("prices", start={0: 4}, end={0: 5})
    assert some.column("offset").to_pylist() == [4]  # by its offset, not by its place in the file
    assert registered(cluster).compacted_below == 6
    check_equal(cluster, whole)
    assert cluster.fsck().findings == ()


def test_tombstones_go_once_every_replica_has_lost_what_they_delete(disks):
    cluster = disks.cluster
    append_prices(cluster, "a1 b1", "-a", "c1")
    whole = contents(cluster)[1]

    cluster.maintain()
    assert [key for _, key, _ in read(cluster)] == ["b", "a", "c"]
    assert registered(cluster).tombstones_below == 0
    cluster.maintain()

    assert registered(cluster).tombstones_below == 4
    assert read(cluster) == [(1, "b", "1"), (3, "c", "1")]
    check_equal(cluster, whole)
    before = cluster.image.offset
    cluster.maintain()
    assert cluster.image.offset == before, "nothing is due any more"


def contents_of(cluster, broker_id):
    image = cluster.image
    key, partition = next(iter(image.partitions()))
    address = address_of(image, key, partition, broker_id)
    state = cluster._node.replicas.open(address).load()
    return [
        KeyedRecord(base + row["offset_delta"], row["key"], row["value"] is None)
        for part in state.batches
        for segment, base, _ in part.ranges()
        for row in read_segment(address, segment, StorageOptions(None)).to_pylist()
    ]


def as_spark_task(disks):
    [order] = Reads(disks.cluster._node).plan("two")
    Reading(options(disks, is_stream=False, subscribe="two")).finish_compaction(order)


def as_cluster(disks):
    disks.cluster.read("two")


@pytest.mark.parametrize("ask", [as_spark_task, as_cluster])
def test_an_unclean_leader_is_compacted_for_a_reader_while_all_others_are_away(disks, ask):
    """Its log ends at its high watermark: no follower's fetch has it take over the leadership."""
    cluster = disks.cluster
    cluster.delete_topic("prices")
    cluster.create_topic("two", replica_assignment={0: [1, 2]}, configs=CONFIGS)
    cluster.append("two", [("a", "1"), ("a", "2")])
    cluster.replicate(is_sweep=True)  # no round owes it an inspection now
    disks.take_down(2)
    cluster.maintain()
    cluster.append("two", [("a", "3")])
    cluster.maintain()
    disks.take_down(1)
    disks.give_back(2)
    cluster.run_controller()
    cluster.elect_leaders("unclean", [("two", 0)])
    partition = partition_of(cluster, "two")
    assert (partition.leader, partition.compaction.cleaned_below) == (2, 2)
    before = cluster.image.offset

    ask(disks)

    key = PartitionKey(cluster.image.topic("two").topic_id, 0)
    leader = cluster._node.replicas.open(address_of(cluster.image, key, partition, 2)).load()
    assert leader.compaction.has_finished(partition.compaction)
    assert cluster.read("two").column("offset").to_pylist() == [1]
    assert cluster._metadata.catch_up().offset == before, "who reads decides nothing"
