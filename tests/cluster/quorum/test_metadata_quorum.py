"""A cluster whose metadata log has three voters: it is opened by any of them, and outlives one."""

import shutil

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidRootError,
)
from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import FAST, PATIENCE_MS, records, values_of
from tests.cluster.folders import roots_in

OPTIONS = StorageOptions()


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2)}
    with Cluster.create(roots_in(folder), brokers, configs=FAST) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        yield cluster


def test_a_cluster_is_opened_by_any_of_its_metadata_roots(cluster, folder):
    cluster.append("orders", records(b"a"))

    for place, root in enumerate(roots_in(folder)):
        with Cluster.open(root) as opened:
            opened.append("orders", records(b"%d" % place))
        cluster.append("orders", records(b"mine"))

    with Cluster.open(f"{folder / 'm3'}, {folder / 'm2'}") as opened:
        assert values_of(opened, "orders") == [b"a", b"0", b"mine", b"1", b"mine", b"2", b"mine"]


@pytest.mark.smoke
def test_a_metadata_root_that_is_lost_stops_nobody(cluster, folder):
    """The leader's: another voter leads once it was away for the fetch timeout."""
    cluster.append("orders", records(b"a"))
    shutil.rmtree(folder / "m1")

    cluster.append("orders", records(b"b"), timeout_ms=PATIENCE_MS)

    with Cluster.open(roots_in(folder)) as opened:
        assert values_of(opened, "orders") == [b"a", b"b"]
    found = cluster.describe_quorum()
    assert found.leader.node_id != 1
    assert found.voters[0].problem is not None
    assert found.lag_max is None


def test_no_root_is_written_to_beside_one_that_has_a_cluster(cluster, folder):
    others = [folder / "m4", folder / "m5"]

    with pytest.raises(InvalidRequestError, match="there is a cluster at"):
        Cluster.create([folder / "m1", *others], {3: folder / "3"}, configs=FAST)

    assert not [each for each in others if each.exists() and any(each.iterdir())]


def test_a_list_that_names_no_cluster_is_refused_in_a_sentence(cluster, folder):
    create_metadata_log(str(folder / "other"), OPTIONS, "another")

    for url, error, sentence in [
        ("{0},{0}", InvalidRootError, "given twice"),
        ("{0},", InvalidRootError, "is not a root"),
        ("{0}/none", ClusterNotFoundError, "check the path"),
        ("{0},{1}/other", InconsistentClusterIdError, "name roots of one cluster"),
    ]:
        with pytest.raises(error, match=sentence):
            Cluster.open(url.format(folder / "m1", folder))
