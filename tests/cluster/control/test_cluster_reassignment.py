"""Replicas move between real tables: with controllers that die, brokers that go, and readers."""

import pytest

from tests.cluster.disks import kept_disks, partition_of, records, restored

QUICK = {
    "controller.lease.ms": 30,
    "delivery.timeout.ms": 120_000,
    "file.delete.delay.ms": 0,
    "replica.fetch.backoff.ms": 0,
    "min.insync.replicas": 2,
}
OLD = [1, 2, 3]


def prepare(disks):
    disks.cluster.create_topic("orders", replica_assignment={0: OLD, 1: [2, 3, 1]})
    for number in range(4):
        disks.cluster.append("orders", [(bytes([each]), b"%d" % number) for each in range(8)])


@pytest.fixture(scope="module")
def life():
    with kept_disks(prepare, brokers=6, configs=QUICK) as base:
        yield base


@pytest.fixture
def disks(life):
    with restored(life) as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    return disks.cluster


def finish(cluster):
    """Replicate and control until no replica moves any more."""
    for _ in range(8):
        cluster.replicate()
        cluster.run_controller()
        if not cluster.reassignments():
            return
    raise AssertionError(f"still moving: {cluster.reassignments()}")


def tables(disks):
    return {
        (each, folder.name) for each in range(1, 7) for folder in disks.root(each).glob("*-*/*-*")
    }


def assert_only_assigned_tables(disks, cluster):
    image = cluster.image
    assert tables(disks) == {
        (broker_id, f"{key.partition}-{partition.uuid_of(broker_id)}")
        for key, partition in image.partitions()
        for broker_id in partition.replicas
        if partition.is_created(broker_id)
    }


def assert_sound(disks):
    assert disks.open().fsck().findings == ()


def test_progress_is_told_in_bytes(disks, cluster):
    cluster.reassign({("orders", 0): [1, 4, 5]}, throttle_bytes_per_s=1)
    [start] = cluster.reassignment_progress()
    size = sum(each.stat().st_size for each in disks.folder(1, "orders").glob("*.parquet"))
    assert (start.copied_bytes, start.total_bytes, start.waits_for) == (0, 2 * size, (4, 5))

    cluster.replicate(configs={"replica.fetch.max.bytes": 1})  # a batch of one of them

    [middle] = cluster.reassignment_progress()
    assert 0 < middle.copied_bytes < middle.total_bytes == 2 * size
    cluster.reassign({("orders", 0): [1, 4, 5]})
    cluster.replicate()
    [end] = cluster.reassignment_progress()
    assert (end.copied_bytes, end.waits_for) == (2 * size, ())
    finish(cluster)
    assert cluster.reassignment_progress() == []


@pytest.mark.parametrize("is_cancelled, ends_at", [(False, [1, 2, 4]), (True, OLD)])
def test_a_move_whose_target_died_is_named_and_goes_on_when_it_is_back_or_is_cancelled(
    disks, cluster, is_cancelled, ends_at
):
    cluster.reassign({("orders", 0): [1, 2, 4]})
    disks.take_away(4)
    cluster.run_controller()
    cluster.run_controller()
    assert [move.waits_for for move in cluster.reassignments()] == [(4,)]
    assert [each.stalled_on for each in cluster.describe_topic("orders").partitions] == [(4,), ()]

    if is_cancelled:
        assert cluster.cancel_reassignment() == [("orders", 0)]
        assert cluster.reassignments() == []
    cluster.append("orders", records(b"a"))
    disks.give_back(4)
    cluster.run_controller()
    finish(cluster)

    assert sorted(partition_of(cluster, "orders").replicas) == ends_at
    assert_only_assigned_tables(disks, cluster)
    assert_sound(disks)
