"""While most metadata roots are away, what the others prove committed is read, and nothing more."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.errors import (
    ClusterNotFoundError,
    InvalidRequestError,
    QuorumUnavailableError,
)
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
