"""While most metadata roots are away, what the others prove committed is read, and nothing more."""

import time

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.errors import (
    ClusterNotFoundError,
    InvalidRequestError,
    QuorumUnavailableError,
)
from kafka_on_spark.spark.run.opening import metadata_log_of
from tests.cluster.disks import FAST, records, values_of
from tests.cluster.folders import roots_in


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2, 3)}
    with Cluster.create(roots_in(folder), brokers, configs=FAST) as cluster:
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        cluster.append("orders", records(b"a", b"b"))
        cluster.alter_cluster_configs({"min.insync.replicas": 2})
        while cluster.describe_quorum().lag_max:
            assert cluster.image  # the third voter is brought up after the answer
        yield cluster


@pytest.mark.parametrize("left", ["m1", "m2", "m3"])
def test_records_are_read_by_what_one_metadata_root_proves(cluster, folder, left):
    newest = cluster.image.offset
    away = [folder / each for each in ("m1", "m2", "m3") if each != left]
    for each in away:
        each.rename(f"{each}-away")
    with pytest.raises(QuorumUnavailableError):
        Cluster.open(roots_in(folder))

    with Cluster.open([*away, folder / left], as_of="proved") as proved:
        assert proved.image.offset < newest
        assert values_of(proved, "orders") == [b"a", b"b"]
        assert proved.history("orders")
        assert proved.metadata_table.startswith(str(folder / left))
        with pytest.raises(InvalidRequestError, match="read-only"):
            proved.append("orders", records(b"c"))

    for each in away:
        each.with_name(f"{each.name}-away").rename(each)
    with Cluster.open(roots_in(folder)) as opened:
        assert opened.image.offset >= newest
        opened.append("orders", records(b"c"))
        assert values_of(opened, "orders") == [b"a", b"b", b"c"]


def test_without_any_metadata_root_there_is_no_cluster(cluster, folder):
    for each in ("m1", "m2", "m3"):
        (folder / each).rename(folder / f"{each}-away")

    with pytest.raises(ClusterNotFoundError, match="m1"):
        Cluster.open(roots_in(folder), as_of="proved")


def test_a_word_that_is_no_moment_is_refused(cluster, folder):
    with pytest.raises(InvalidRequestError, match="'proved'"):
        Cluster.open(roots_in(folder), as_of="now")


def wait_for_calls(cluster):
    """Wait for the calls that outlive a cluster: one of them would bring up the root that comes back."""
    tables = metadata_log_of(cluster._services.metadata).tables
    while any(map(tables._under_way.get, tables.voters.keys)):
        time.sleep(0.01)


def test_what_was_given_up_is_not_read_though_it_proves_more(cluster, folder):
    """The cluster was forced to go on from a root that lacked what the others decided last."""
    (folder / "m3").rename(folder / "m3-away")
    for number in range(20):
        cluster.alter_cluster_configs({"retention.ms": 1_000_000 + number})
    newest = cluster.image.offset
    cluster.close()
    for each in ("m1", "m2"):
        (folder / each).rename(folder / f"{each}-away")
    wait_for_calls(cluster)
    (folder / "m3-away").rename(folder / "m3")
    Cluster.force_controller(folder / "m3", 3)
    for each in ("m1", "m2"):
        (folder / f"{each}-away").rename(folder / each)

    with Cluster.open(roots_in(folder), as_of="proved") as proved:
        assert proved.metadata_table.startswith(str(folder / "m3"))
        assert proved.image.generation == 1
        assert proved.image.offset < newest
