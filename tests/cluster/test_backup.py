"""What docs/recovering.md says of backups: copies of roots, restored."""

import shutil

import pytest

from tests.cluster.disks import new_disks, records, values_of


@pytest.fixture
def disks():
    """A cluster to which something was appended since all its roots were copied to "copy"; closed."""
    with new_disks() as disks:
        disks.cluster.create_topic("flights", replica_assignment={0: [1, 2, 3]})
        disks.cluster.append("flights", records(b"1", b"2", b"3"))
        disks.settle()
        shutil.copytree(disks.base, disks.base / "copy")
        disks.cluster.append("flights", records(b"4"))
        disks.settle()
        disks.cluster.close()
        yield disks


def restore(disks, *roots):
    for root in roots:
        shutil.rmtree(root)
        shutil.copytree(disks.base / "copy" / root.name, root)


def assert_sound(cluster, *values):
    assert values_of(cluster, "flights") == list(values)
    assert cluster.fsck().findings == ()
    assert [len(each.isr) for each in cluster.describe_topic("flights").partitions] == [3]


def test_a_copy_of_all_roots_is_the_cluster_as_it_was(disks):
    restore(disks, disks.metadata_root, *map(disks.root, (1, 2, 3)))

    cluster = disks.open()
    assert_sound(cluster, b"1", b"2", b"3")
    cluster.append("flights", records(b"5"))
    assert_sound(disks.open(), b"1", b"2", b"3", b"5")


def test_an_older_copy_of_one_brokers_root_is_found_and_made_anew(disks):
    restore(disks, disks.root(2))

    cluster = disks.open()
    assert cluster.fsck().findings != ()
    for _ in range(5):
        cluster.run_controller()
        cluster.replicate(is_sweep=True)
    assert_sound(cluster, b"1", b"2", b"3", b"4")
