"""Roots in one another: one disk would hold all copies, and folders would mix."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import InvalidRootError
from tests.bad_input.refusals import check_sentence
from tests.cluster.disks import new_disks

BESIDE = "give each a folder of its own, beside the others"

# fmt: off
FOLDERS = [
    pytest.param("meta",      {1: "a", 2: "a/b"},       ["a/b of broker 2 lies in the root of broker 1"],   id="in another"),
    pytest.param("meta",      {1: "a/b", 2: "a"},       ["a of broker 2 holds the root of broker 1"],       id="around another"),
    pytest.param("meta",      {1: "a", 2: "b/../a/c"},  ["a/c of broker 2 lies in the root of broker 1"],   id="in another by a detour"),
    pytest.param("meta",      {1: "meta"},              ["meta of broker 1 is the metadata root"],          id="the metadata root"),
    pytest.param("meta",      {1: "a", 2: "meta/2"},    ["meta/2 of broker 2 lies in the metadata root"],   id="in the metadata root"),
    pytest.param("a/meta",    {1: "a"},                 ["a of broker 1 holds the metadata root"],          id="around the metadata root"),
    pytest.param("meta",      {1: "a", 2: "link"},      ["link of broker 2 is the root of broker 1"],       id="the same by a link"),
    pytest.param("meta",      {1: "link", 2: "a"},      ["a of broker 2 is the root of broker 1"],          id="a link before what it leads to"),
    pytest.param("meta",      {1: "a", 2: "link/new"},  ["link/new of broker 2 lies in the root of"],       id="in another by a link"),
    pytest.param("link",      {1: "a"},                 ["a of broker 1 is the metadata root"],             id="the metadata root by a link"),
    pytest.param("s3://b/m",  {1: "s3a://b/m/1"},       ["s3a://b/m/1 of broker 1 lies in the metadata"],   id="in another of a store"),
    pytest.param("s3://b/m",  {1: "s3://b/1", 2: "s3://b"}, ["s3://b of broker 2 holds"],                   id="a bucket around others"),
]
# fmt: on


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("metadata_root, roots, words", FOLDERS)
def test_a_cluster_is_not_created_with_roots_in_one_another(folder, metadata_root, roots, words):
    with pytest.raises(InvalidRootError) as caught:
        Cluster.create(metadata_root, roots)

    check_sentence(str(caught.value), *words, BESIDE)
    assert sorted(each.name for each in folder.rglob("*")) == ["a", "link"]


def test_roots_beside_each_other_whose_names_begin_alike_are_taken(folder):
    with Cluster.create("m", {1: "a", 2: "a-2", 3: "a2/deeper"}) as cluster:
        assert sorted(cluster.image.brokers) == [1, 2, 3]


# fmt: off
REGISTRATIONS = [
    pytest.param(4, "broker-2/deeper", ["lies in the root of broker 2"],  id="in another broker's"),
    pytest.param(4, "meta",            ["is the metadata root"],          id="the metadata root"),
    pytest.param(4, "meta/4",          ["lies in the metadata root"],     id="in the metadata root"),
    pytest.param(4, ".",               ["holds the metadata root"],       id="around all"),
    pytest.param(4, "link/deeper",     ["lies in the root of broker 2"],  id="in another broker's by a link"),
]
# fmt: on


@pytest.mark.parametrize("broker_id, root, words", REGISTRATIONS)
def test_a_root_in_another_is_not_registered(disks, refused, broker_id, root, words):
    link = disks.base / "link"
    if not link.is_symlink():
        link.symlink_to(disks.root(2))

    with refused(InvalidRootError, *words, BESIDE):
        disks.cluster.register_broker(broker_id, disks.base / root)


def test_a_brokers_other_disk_may_lie_where_its_lost_one_was():
    with new_disks() as disks:
        disks.take_down(2)
        disks.cluster.register_broker(2, disks.root(2) / "disk-2")

        assert disks.cluster.image.brokers[2].root == str(disks.root(2) / "disk-2")
