"""A majority of metadata roots is lost for ever, and the cluster is forced to go on from one."""

import shutil

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    InconsistentClusterError,
    InvalidRequestError,
    QuorumUnavailableError,
)
from kafka_on_spark.store.root_identity import read_identity
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import FAST, records, values_of
from tests.cluster.folders import roots_in
from tests.cluster.voters import bring_up

OPTIONS = StorageOptions()


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2, 3)}
    with Cluster.create(roots_in(folder), brokers, configs=FAST) as cluster:
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        cluster.create_topic("empty", replica_assignment={0: [1, 2]})
        cluster.append("orders", records(b"a", b"b"))
        bring_up(cluster)
        yield cluster


def away(folder, *names):
    for name in names:
        (folder / name).rename(folder / f"{name}-away")


def back(folder, *names):
    for name in names:
        (folder / f"{name}-away").rename(folder / name)


def test_a_cluster_goes_on_from_one_root_of_three(cluster, folder):
    for name in ("m1", "m2"):
        shutil.rmtree(folder / name)
    with pytest.raises(QuorumUnavailableError):
        Cluster.open(folder / "m3")

    done = Cluster.force_controller(folder / "m3", 3)

    assert (done.generation, done.voter.key.node_id) == (1, 3)
    assert [each.topic for each in done.elections.proven] == ["orders"]
    assert (done.elections.unclean, done.elections.leaderless) == ((), ())
    assert done.elections.fenced_count == 3
    with Cluster.open(folder / "m3") as opened:
        assert opened.image.generation == 1
        assert values_of(opened, "orders") == [b"a", b"b"]
        opened.append("orders", records(b"c"))
        opened.append("empty", records(b"first"))
        assert values_of(opened, "orders") == [b"a", b"b", b"c"]
        assert [each.voter.key.node_id for each in opened.describe_quorum().voters] == [3]
        report = opened.fsck()
        assert not report.findings
        opened.add_controller(folder / "m4")
    assert [read_identity(str(folder / each), OPTIONS).generation for each in ("1", "2", "3")] == [
        1,
        1,
        1,
    ]


def test_a_process_of_the_old_generation_that_comes_back_stops(cluster, folder):
    """It still reaches a majority of the old roots; a fence of the new generation ends it."""
    away(folder, "m1", "m2")
    Cluster.force_controller(folder / "m3", 3)
    with Cluster.open(folder / "m3") as opened:
        opened.append("orders", records(b"new"))
    away(folder, "m3")
    back(folder, "m1", "m2")

    with pytest.raises(InconsistentClusterError, match="the cluster was forced"):
        cluster.append("orders", records(b"old"))

    back(folder, "m3")
    away(folder, "m1", "m2")
    with Cluster.open(folder / "m3") as opened:
        assert values_of(opened, "orders") == [b"a", b"b", b"new"]


def test_a_force_that_was_cut_off_goes_on(cluster, folder, monkeypatch):
    away(folder, "m1", "m2")

    def cut_off(node):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        place = "kafka_on_spark.controller.forced_generation.lead_anew"
        patched.setattr(place, cut_off)
        with pytest.raises(KeyboardInterrupt):
            Cluster.force_controller(folder / "m3", 3)

    done = Cluster.force_controller(folder / "m3", 3)

    assert done.generation == 1
    assert [each.topic for each in done.elections.proven] == ["orders"]
    with pytest.raises(InvalidRequestError, match="nothing is to be forced"):
        Cluster.force_controller(folder / "m3", 3)


def test_the_new_generation_is_opened_whoever_is_named_first(cluster, folder):
    """Roots of the generation that was given up are back, and on the list."""
    away(folder, "m1", "m2")
    Cluster.force_controller(folder / "m3", 3)
    back(folder, "m1", "m2")
    roots = roots_in(folder)

    for turn in range(3):
        with Cluster.open([*roots[turn:], *roots[:turn]]) as opened:
            assert opened.image.generation == 1
            opened.append("orders", records(b"%d" % turn))
            assert [each.voter.key.node_id for each in opened.describe_quorum().voters] == [3]
    with Cluster.open(roots[2]) as opened:
        assert values_of(opened, "orders") == [b"a", b"b", b"0", b"1", b"2"]
