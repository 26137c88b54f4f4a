"""Several processes create a cluster at the same roots at once: one cluster comes of it."""

from pathlib import Path

import pytest

from kafka_on_spark.base.errors import InconsistentClusterIdError
from kafka_on_spark.metadata import cluster_roots
from kafka_on_spark.metadata.cluster_roots import create_metadata_log, create_voter
from kafka_on_spark.metadata.metadata_root import read_identity
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.folders import quick_folder, roots_in

OPTIONS = StorageOptions()


@pytest.fixture
def roots():
    """Where a flush costs nothing: a disk that is busy takes longer than a voter is waited for."""
    with quick_folder() as folder:
        yield roots_in(folder)


@pytest.mark.parametrize("of_the_other", [1, 2, 3])
@pytest.mark.parametrize("is_turned", [False, True], ids=["in one order", "in another order"])
def test_who_is_slower_goes_on_with_what_the_other_has_named(
    roots, monkeypatch, of_the_other, is_turned
):
    """The other names the first roots just before this process does, and its list may be turned."""
    others = [*reversed(roots)] if is_turned else roots
    names = iter(sorted(map(str, roots))[:of_the_other])

    def raced(root, options, cluster_id, *, node_id, **given):
        if next(names, None) is not None:
            other_id = [each.name for each in others].index(Path(root).name) + 1
            create_voter(root, options, "other", node_id=other_id, **given)
        return create_voter(root, options, cluster_id, node_id=node_id, **given)

    monkeypatch.setattr(cluster_roots, "create_voter", raced)

    created = create_metadata_log(cluster_url(roots), OPTIONS, "mine")

    assert created.identity.cluster_id == "other"
    assert sorted(each.node_id for each in created.tables.voters.keys) == [1, 2, 3]
    assert created.read(from_offset=0)


# fmt: off
ADDED = [  # named        node  with brokers  begins
    pytest.param(["m2"],             2, False, False, id="alone, it would be the first"),
    pytest.param(["m1", "m2"],       2, False, False, id="the root before it has no name"),
    pytest.param(["m2", "m3", "m4"], 4, False, False, id="so many roots take no such id"),
    pytest.param(["m2", "m3"],       2, True,  False, id="brokers have the cluster's id before its log"),
    pytest.param(["m2", "m3"],       2, False, True,  id="a creation that was cut off may leave it"),
    pytest.param(["m2", "m3", "m4"], 3, False, True,  id="likewise, with its roots in another order"),
]
# fmt: on


@pytest.mark.parametrize("named, node_id, has_brokers, begins", ADDED)
def test_no_second_cluster_of_an_id_begins_at_a_root_whose_addition_was_cut_off(
    tmp_path, named, node_id, has_brokers, begins
):
    create_voter(str(tmp_path / "m2"), OPTIONS, "theirs", node_id=node_id)
    roots = [tmp_path / name for name in named]
    brokers = {"theirs"} if has_brokers else set()

    def create():
        return create_metadata_log(cluster_url(roots), OPTIONS, "mine", with_brokers=brokers)

    if begins:
        assert create().identity.cluster_id == "theirs"
        return
    with pytest.raises(InconsistentClusterIdError, match=f"metadata root {node_id} of cluster"):
        create()
    others = [str(root) for root in roots if root.name != "m2"]
    assert [read_identity(root, OPTIONS) for root in others] == [None] * len(others)


def test_a_creation_goes_on_whose_brokers_have_the_clusters_id_since_its_log_began(tmp_path):
    url = cluster_url([tmp_path / name for name in ("m1", "m2")])
    begun = create_metadata_log(url, OPTIONS, "mine")

    log = create_metadata_log(url, OPTIONS, "another", with_brokers={"mine"})

    assert log.identity == begun.identity
