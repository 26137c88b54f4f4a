"""A path is not a cluster: one that is deleted and made again at its path is another.

A process that has the old one open notices it, is told in a sentence, and changes nothing in the new one.
"""

import shutil

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import ClusterNotFoundError, CorruptLogError, InvalidRootError
from kafka_on_spark.metadata.metadata_root import TABLE_PREFIX
from tests.cluster.disks import Disks, files_below, new_disks, records, values_of
from tests.cluster.folders import quick_folder


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("t", replication_factor=3)
        disks.cluster.append("t", records(b"old"))
        yield disks


def made_again(disks, appends=8):
    """Delete the cluster and make another at its path, with a longer log; return that one."""
    for folder in (disks.metadata_root, *map(disks.root, (1, 2, 3))):
        shutil.rmtree(folder)
    other = Disks(disks.base)
    cluster = other.create()
    disks.opened.append(cluster)
    cluster.create_topic("t", replication_factor=3)
    for number in range(appends):
        cluster.append("t", records(b"new %d" % number))
    return cluster


ACTS = {
    "image": lambda cluster: cluster.image,
    "read": lambda cluster: cluster.read("t"),
    "append": lambda cluster: cluster.append("t", records(b"zombie"), timeout_ms=500),
    "create a topic": lambda cluster: cluster.create_topic("u", replication_factor=3),
    "settings": lambda cluster: cluster.alter_topic_configs("t", {"retention.ms": "1"}),
    "control": lambda cluster: cluster.run_controller(),
    "replicate": lambda cluster: cluster.replicate(is_sweep=True),
    "describe": lambda cluster: cluster.describe_topic("t"),
}


def test_an_open_client_says_that_its_cluster_is_gone_and_leaves_the_new_one_alone(disks):
    new = made_again(disks)
    before = files_below(disks.metadata_root, *map(disks.root, (1, 2, 3)))

    for act in ACTS.values():
        with pytest.raises(ClusterNotFoundError, match="was created: open it again") as caught:
            act(disks.cluster)
        assert new.image.cluster_id in str(caught.value)

    assert files_below(disks.metadata_root, *map(disks.root, (1, 2, 3))) == before
    assert {each.state.value for each in new.image.brokers.values()} == {"active"}
    assert values_of(new, "t") == [b"new %d" % number for number in range(8)]


def table_of(disks):
    [table] = disks.metadata_root.glob(f"{TABLE_PREFIX}*")
    return table


def test_a_table_whose_root_lost_the_file_that_names_it_is_no_empty_root(disks):
    file = disks.metadata_root / "meta.properties"
    for content in (b"", b"version=1\ncluster.id=x\n", b"\xff\x00", None):
        file.write_bytes(content) if content is not None else file.unlink()
        with pytest.raises(CorruptLogError, match="restore that file from a copy"):
            Cluster.open(disks.metadata_root)
        with pytest.raises((CorruptLogError, InvalidRootError)):
            Cluster.create(disks.metadata_root, {9: disks.root(9)})

    assert not disks.root(9).exists()


def test_a_root_whose_table_is_gone_is_no_empty_root(disks):
    shutil.rmtree(table_of(disks))

    for act in (Cluster.open, lambda root: Cluster.create(root, {9: disks.root(9)})):
        with pytest.raises(CorruptLogError, match=r"is gone from its root: .* restore it"):
            act(disks.metadata_root)
    with pytest.raises(CorruptLogError, match=r"is gone from its root: .* restore it"):
        disks.cluster.append("t", records(b"x"))


def test_the_table_of_another_metadata_root_is_refused(disks):
    with quick_folder() as folder:
        other = Disks(folder)
        other.create().close()
        shutil.rmtree(table_of(disks))
        shutil.copytree(table_of(other), disks.cluster.metadata_table)

    with pytest.raises(CorruptLogError, match="another metadata root's"):
        Cluster.open(disks.metadata_root)


def test_a_cluster_is_made_where_a_creation_was_cut_off_before_its_table_had_a_name(disks):
    with quick_folder() as folder:
        other = Disks(folder)
        left = other.metadata_root / f"{TABLE_PREFIX}{'0' * 32}"
        shutil.copytree(table_of(disks), left)
        for path in (left / "_delta_log").iterdir():
            if path.name != f"{0:020d}.json":
                path.unlink()

        with other.create() as cluster:
            cluster.create_topic("t", replication_factor=3)
            cluster.append("t", records(b"a"))
            assert values_of(cluster, "t") == [b"a"]
