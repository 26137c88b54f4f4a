"""The three ways in which logs were lost or came to differ before leader epochs, on real tables.

KIP-101's two scenarios and KIP-279's.
"""

import pytest

from tests.cluster.disks import isr_of, partition_of, records, values_of

REPLICAS = {0: [1, 2, 3]}


@pytest.fixture
def cluster(disks):
    disks.cluster.create_topic("orders", replica_assignment=REPLICAS)
    return disks.cluster


def catch_up(cluster) -> int:
    """Replicate until nobody is behind; return how many records were cut."""
    cut = 0
    for _ in range(6):
        report = cluster.replicate(is_sweep=True)
        cut += report.truncated_records
        if report.is_caught_up:
            return cut
    raise AssertionError("somebody stays behind")


def held(disks) -> list[list[bytes]]:
    return [disks.values_on(each, "orders") for each in (1, 2, 3)]


def test_a_committed_record_lost_by_truncation_to_the_high_watermark(disks, cluster):
    """KIP-101, scenario 1: a follower that restarts keeps what it has, and may lead with it."""
    cluster.append("orders", records(b"m1", b"m2"))
    restarted = disks.open()
    assert catch_up(restarted) == 0
    disks.take_away(1)

    restarted.run_controller()

    assert partition_of(restarted, "orders").leader == 2
    assert values_of(restarted, "orders") == [b"m1", b"m2"]


def test_replicas_that_differ_for_ever_after_a_double_crash(disks, cluster):
    """KIP-101, scenario 2: two records at one offset, and the high watermark beyond it."""
    cluster.append("orders", records(b"m1"))
    disks.take_away(2, 3)
    cluster.append("orders", records(b"m2"), acks=1)
    disks.take_away(1)
    disks.give_back(2, 3)
    cluster.run_controller()
    cluster.append("orders", records(b"m3"))
    assert values_of(cluster, "orders") == [b"m1", b"m3"]

    disks.give_back(1)
    cluster.run_controller()

    assert catch_up(cluster) == 1
    assert held(disks) == [[b"m1", b"m3"]] * 3
    assert isr_of(cluster, "orders") == [1, 2, 3]


def test_two_fast_failovers(disks, cluster):
    """KIP-279: one question about the last epoch would let broker 3 keep its record."""
    cluster.alter_topic_configs("orders", {"min.insync.replicas": "2"})
    disks.take_away(3)
    cluster.append("orders", records(b"x"), acks=1)
    cluster.replicate()  # broker 2 has it; broker 3, in sync by the register, holds it back
    assert values_of(cluster, "orders") == []
    disks.take_away(1, 2)
    disks.give_back(3)
    cluster.run_controller()
    cluster.append("orders", records(b"y"), acks=1)
    assert partition_of(cluster, "orders").leader == 3
    disks.take_away(3)
    disks.give_back(2)
    cluster.run_controller()
    assert partition_of(cluster, "orders").leader == 2

    disks.give_back(1, 3)
    cluster.run_controller()
    catch_up(cluster)
    cluster.append("orders", records(b"z"))

    assert held(disks) == [[b"x", b"z"]] * 3
    assert values_of(cluster, "orders") == [b"x", b"z"]
