"""Compacted topics on real disks: what replicas keep, that they are equal, and what is read."""

import pytest

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.consume.reads import Reads
from kafka_on_spark.log.state import address_of
from kafka_on_spark.spark.source import Reading
from tests.cluster.disks import new_disks, partition_of
from tests.cluster.format.sources import options
from tests.cluster.replicas.test_cluster_failover import REPLICAS
from tests.fsck.upkept import append_prices

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


def states(cluster):
    image = cluster.image
    key, partition = next(iter(image.partitions()))
    replicas = cluster._node.replicas
    return {
        broker_id: replicas.open(address_of(image, key, partition, broker_id)).load()
        for broker_id in partition.replicas
        if partition.is_created(broker_id)
    }


def registered(cluster):
    return next(iter(cluster.image.partitions()))[1].compaction


def test_a_compacted_log_keeps_the_last_value_of_each_key_at_its_offset(disks):
    cluster = disks.cluster
    append_prices(cluster, "a1 b1 a2", "c1 b2", "a3")

    cluster.maintain()

    rows = cluster.read("prices").select(["offset", "key", "value"]).to_pylist()
    kept = [tuple(row.values()) for row in rows]
    assert kept == [(3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3")]
    some = cluster.read("prices", start={0: 4}, end={0: 5})
    assert some.column("offset").to_pylist() == [4]  # by its offset, not by its place in the file
    assert registered(cluster).compacted_below == 6
    assert all(
        each.compaction.has_finished(registered(cluster)) for each in states(cluster).values()
    )
    assert cluster.fsck().findings == ()


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
