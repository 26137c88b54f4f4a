"""A root that is swapped, shortened, mistaken, half-dead or full is offline or bad, never empty.

Wiped, unmounted, replaced and rolled-back ones are in test_cluster_lost_replicas.py. What is
bad comes back by a full fetch under a new uuid only; what was offline is welcome as it was.
"""

import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest

from kafka_on_spark.metadata.records import BrokerState
from tests.cluster.disks import files_below, isr_of, partition_of, records, values_of

VALUES = [b"a", b"b", b"c"]


@pytest.fixture
def cluster(disks):
    """Three records on brokers 1 (leader), 2 and 3, in three batches."""
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    for value in VALUES:
        disks.cluster.append("orders", records(value))
    return disks.cluster


def heal(cluster, name="orders"):
    """Control and replicate until all are in sync; return how many records were copied."""
    copied = 0
    for number in range(8):
        cluster.run_controller()
        report = cluster.replicate(is_sweep=number == 0)
        copied += report.copied_records
        if report.is_caught_up and isr_of(cluster, name) == [1, 2, 3]:
            return copied
    raise AssertionError("somebody stays behind")


def held(disks):
    return [disks.values_on(each, "orders") for each in (1, 2, 3)]


def test_two_disks_that_were_swapped_are_both_offline_until_they_are_back(disks, cluster):
    disks.take_away(1, 2)
    (disks.base / "away-1").rename(disks.root(2))
    (disks.base / "away-2").rename(disks.root(1))
    before = files_below(disks.root(1), disks.root(2))
    uuids = partition_of(cluster, "orders").replica_uuids

    report = cluster.run_controller()
    cluster.append("orders", records(b"d"))
    cluster.replicate(is_sweep=True)

    assert set(report.fenced) == {1, 2}
    assert isr_of(cluster, "orders") == [3]
    assert files_below(disks.root(1), disks.root(2)) == before
    disks.root(1).rename(disks.base / "away-2")
    disks.root(2).rename(disks.base / "away-1")
    disks.give_back(1, 2)
    assert heal(cluster) == 2  # the one record that each has missed
    assert partition_of(cluster, "orders").replica_uuids == uuids
    assert held(disks) == [[*VALUES, b"d"]] * 3


@contextmanager
def small_disk(disks, broker_id, free_bytes):
    """Put a broker's root on a file system of its own with so much room left."""
    root = disks.root(broker_id)
    used = sum(file.stat().st_size + 8192 for file in root.rglob("*"))
    disks.take_away(broker_id)
    root.mkdir()
    try:
        mount("-t", "tmpfs", "-o", f"size={used + free_bytes}", "tmpfs", str(root))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk needs the right to mount one: {error}")
    try:
        shutil.copytree(disks.base / f"away-{broker_id}", root, dirs_exist_ok=True)
        yield root
    finally:
        # Lazily: a call that was given up may have a file open there.
        subprocess.run(["umount", "-l", str(root)], check=True, capture_output=True)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def test_a_full_root_loses_nothing_and_is_welcome_when_it_has_room(disks, cluster):
    with small_disk(disks, 3, free_bytes=1 << 16) as root:
        before = disks.folder(3, "orders")
        ballast = root / "ballast"
        fill(ballast)
        other = disks.open()

        other.run_controller()
        other.append("orders", records(b"d"))

        assert isr_of(other, "orders") == [1, 2]
        assert other.image.brokers[3].state is BrokerState.FENCED
        assert values_of(other, "orders") == [*VALUES, b"d"]
        ballast.unlink()
        assert heal(other) == 1
        assert disks.folder(3, "orders") == before
        assert held(disks) == [[*VALUES, b"d"]] * 3


def test_retention_gives_a_full_root_room_by_which_its_broker_comes_back(disks, cluster):
    cluster.alter_topic_configs("orders", {"file.delete.delay.ms": 0})
    with small_disk(disks, 3, free_bytes=1 << 20) as root:
        cluster.append("orders", records(os.urandom(1 << 19)))
        (root / "ballast").write_bytes(bytes(max(room_of(root) - (1 << 17), 0)))
        cluster.append("orders", records(os.urandom(3 << 17)))
        assert cluster.run_controller().fenced == (3,)

        cluster.delete_records({("orders", 0): 4})
        cluster.maintain()  # drops batches; their files may go from the next millisecond on
        cluster.maintain()

        assert room_of(root) > 1 << 19
        assert cluster.run_controller().unfenced == (3,)


def test_what_waits_for_deletion_gives_room_on_a_disk_without_a_free_byte(disks, cluster):
    with small_disk(disks, 3, free_bytes=1 << 20) as root:
        cluster.append("orders", records(os.urandom(1 << 19)))
        cluster.delete_records({("orders", 0): 4})
        cluster.maintain()  # drops batches; their files wait
        fill(root / "ballast")
        assert room_of(root) == 0

        cluster.alter_topic_configs("orders", {"file.delete.delay.ms": 0})
        cluster.maintain()

        assert room_of(root) > 1 << 18


def room_of(root):
    found = os.statvfs(root)
    return found.f_bfree * found.f_frsize


def fill(path):
    """Write until no byte fits."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 12, 1):
            try:
                while file.write(os.urandom(size)):
                    pass
            except OSError:
                continue
