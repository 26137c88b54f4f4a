"""A broker's disk goes away and comes back: who leads, who is in sync, what readers see."""

import pytest

from kafka_on_spark.base.errors import NotEnoughReplicasError
from tests.cluster.disks import isr_of, partition_of, records, values_of

REPLICAS = {0: [1, 2, 3]}


@pytest.fixture
def cluster(disks):
    disks.cluster.create_topic(
        "orders", replica_assignment=REPLICAS, configs={"min.insync.replicas": 2}
    )
    disks.cluster.append("orders", records(b"a"))
    return disks.cluster


@pytest.mark.smoke
def test_the_partitions_of_a_lost_broker_fail_over_and_appends_go_on(disks, cluster):
    disks.take_away(1)

    report = cluster.run_controller()
    cluster.append("orders", records(b"b"))

    partition = partition_of(cluster, "orders")
    assert (report.fenced, report.leaders_moved) == ((1,), 1)
    assert (partition.leader, partition.leader_epoch, isr_of(cluster, "orders")) == (2, 1, [2, 3])
    assert values_of(cluster, "orders") == [b"a", b"b"]


def test_below_the_minimum_of_in_sync_replicas_nothing_is_written(disks, cluster):
    disks.take_away(2, 3)
    cluster.run_controller()
    before = cluster.image.offset

    with pytest.raises(
        NotEnoughReplicasError,
        match=r"orders-0 has 1 replicas in sync.*acks=all needs 2 \(min\.insync\.replicas\).*bring brokers back, or append with acks=1",
    ):
        cluster.append("orders", records(b"b"))

    assert cluster.image.offset == before
    assert disks.values_on(1, "orders") == [b"a"]


@pytest.mark.smoke
def test_a_broker_that_returns_catches_up_rejoins_and_leads_again(disks, cluster):
    disks.take_away(1)
    cluster.run_controller()
    cluster.append("orders", records(b"b", b"c"))
    disks.give_back(1)

    report = cluster.run_controller()
    assert report.unfenced == (1,)
    assert isr_of(cluster, "orders") == [2, 3]
    replicated = cluster.replicate()

    assert (replicated.copied_records, replicated.is_caught_up) == (2, True)
    assert isr_of(cluster, "orders") == [1, 2, 3]
    assert cluster.elect_leaders("preferred") == [("orders", 0)]
    assert partition_of(cluster, "orders").leader == 1
    assert disks.values_on(1, "orders") == [b"a", b"b", b"c"]
    cluster.append("orders", records(b"d"))
    assert disks.values_on(3, "orders") == [b"a", b"b", b"c", b"d"]


def test_the_history_names_every_cause(disks, cluster):
    disks.take_away(1)
    cluster.run_controller()
    cluster.append("orders", records(b"b"))
    disks.give_back(1)
    cluster.run_controller()
    cluster.replicate()
    cluster.elect_leaders("preferred")

    # fmt: off
    lives = [
        (1, 0, (1, 2, 3), "topic created by request"),
        (1, 0, (1, 2, 3), "replicas made on brokers 1, 2, 3"),
        (2, 1, (2, 3),    "broker 1: probe failed "),
        (2, 1, (1, 2, 3), "broker 1: caught up at offset 2 in epoch 1"),
        (1, 2, (1, 2, 3), "preferred leaders by request"),
    ]
    # fmt: on
    history = cluster.history("orders", 0)
    assert [(each.leader, each.leader_epoch, each.isr) for each in history] == [
        life[:3] for life in lives
    ]
    for entry, life in zip(history, lives, strict=True):
        assert entry.cause.startswith(life[3])
    assert [each.partition_epoch for each in history] == [0, 1, 2, 3, 4]
    assert [each.time for each in history] == sorted(each.time for each in history)
    assert cluster.history("orders") == history


@pytest.mark.smoke
def test_when_every_disk_is_away_the_last_in_sync_one_leads_again_when_it_returns(disks, cluster):
    disks.take_away(2, 3)
    cluster.run_controller()
    disks.take_away(1)
    cluster.run_controller()
    assert (partition_of(cluster, "orders").leader, isr_of(cluster, "orders")) == (None, [1])

    disks.give_back(1)
    cluster.run_controller()

    assert partition_of(cluster, "orders").leader == 1
    assert values_of(cluster, "orders") == [b"a"]
