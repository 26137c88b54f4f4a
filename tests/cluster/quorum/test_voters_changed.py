"""A cluster's metadata roots change while it is used: it grows from one to three and shrinks back."""

import shutil
import threading

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    DuplicateVoterError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidRootError,
)
from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.metadata.metadata_root import read_identity
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import FAST, PATIENCE_MS, records, values_of
from tests.cluster.voters import end_calls

OPTIONS = StorageOptions()


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2)}
    with Cluster.create(folder / "m1", brokers, configs=FAST) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        yield cluster


@pytest.fixture
def grown(cluster, folder):
    for name in ("m2", "m3"):
        cluster.add_controller(folder / name)
    return cluster


def voters_of(cluster):
    return [each.voter.key.node_id for each in cluster.describe_quorum().voters]


def test_a_cluster_grows_from_one_root_to_three_and_shrinks_back_while_it_is_used(cluster, folder):
    is_over, failures, appended = threading.Event(), [], []

    def append():
        with Cluster.open(folder / "m1") as other:
            while not is_over.is_set():
                value = b"%d" % len(appended)
                try:
                    other.append("orders", records(value), timeout_ms=PATIENCE_MS)
                except Exception as error:
                    failures.append(error)
                    return
                appended.append(value)
            end_calls(other)

    writer = threading.Thread(target=append)
    writer.start()
    try:
        for name in ("m2", "m3"):
            cluster.add_controller(folder / name)
        assert voters_of(cluster) == [1, 2, 3]
        cluster.elect_controller(3)
        for voter in (1, "2"):
            cluster.remove_controller(voter)
    finally:
        is_over.set()
        writer.join()

    assert failures == []
    assert voters_of(cluster) == [3]
    end_calls(cluster)
    for name in ("m1", "m2"):
        shutil.rmtree(folder / name)
    with Cluster.open(folder / "m3") as opened:
        assert values_of(opened, "orders") == appended
        opened.append("orders", records(b"last"))
    assert values_of(cluster, "orders") == [*appended, b"last"]


def test_an_old_list_leads_to_the_voters_of_now(grown, folder):
    """The list names the first root alone, which was removed and says so."""
    old = Cluster.open(folder / "m1")
    grown.remove_controller(1)
    grown.append("orders", records(b"a"))

    with old:
        old.append("orders", records(b"b"))
        assert voters_of(old) == [2, 3]
    with Cluster.open([folder / "m1", folder / "m3"]) as opened:
        opened.append("orders", records(b"c"))
        assert values_of(opened, "orders") == [b"a", b"b", b"c"]
    with Cluster.open(folder / "m1") as opened:
        assert values_of(opened, "orders") == [b"a", b"b", b"c"]


def test_a_root_that_is_lost_is_removed_without_it(grown, folder):
    shutil.rmtree(folder / "m1")  # it leads

    done = grown.remove_controller(1)

    assert not done.is_marked
    assert voters_of(grown) == [2, 3]
    grown.append("orders", records(b"a"))
    assert values_of(grown, "orders") == [b"a"]


def test_an_addition_that_was_cut_off_goes_on(cluster, folder, monkeypatch):
    def cut_off(self, voter, stamp):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        changes = "kafka_on_spark.metadata.quorum.voter_changes.VoterChanges"
        patched.setattr(f"{changes}.add", cut_off)
        with pytest.raises(KeyboardInterrupt):
            cluster.add_controller(folder / "m2")
    found = read_identity(str(folder / "m2"), OPTIONS)
    cluster.append("orders", records(b"a"))

    done = cluster.add_controller(folder / "m2")

    assert done.voter.key.directory_id == found.directory_id
    assert voters_of(cluster) == [1, 2]


def test_roots_that_can_not_be_voters_are_refused_and_stay_as_they_are(cluster, folder):
    create_metadata_log(str(folder / "other"), OPTIONS, "another")
    (folder / "file").write_text("a file")
    refused = {
        "m1": DuplicateVoterError,
        "other": InconsistentClusterIdError,
        "file": InvalidRootError,
        "1": InvalidRootError,
        "2/in": InvalidRootError,
        "m1/in": InvalidRootError,
        "a,b": InvalidRootError,
    }

    for name, error in refused.items():
        with pytest.raises(error):
            cluster.add_controller(folder / name)

    assert not (folder / "m1" / "in").exists()
    assert not (folder / "2" / "in").exists()
    assert voters_of(cluster) == [1]
    with pytest.raises(InvalidRequestError, match="root_mode"):
        cluster.add_controller(folder / "m2", root_mode=7)
    assert not (folder / "m2").exists()
