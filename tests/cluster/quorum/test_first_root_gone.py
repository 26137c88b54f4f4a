"""The metadata root that everybody names first is gone: nothing needs it, and nothing makes it."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.log.worker import replica_store
from tests.cluster.disks import FAST, PATIENCE_MS, records, values_of
from tests.cluster.folders import roots_in

QUICK = {
    **FAST,
    "delivery.timeout.ms": str(PATIENCE_MS),
    "controller.quorum.fetch.timeout.ms": "200",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "50",
}


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2)}
    with Cluster.create(roots_in(folder), brokers, configs=QUICK) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        cluster.append("orders", records(b"a"))
        cluster.replicate(is_sweep=True)
        yield cluster


def everything(cluster):
    """Do what users and operators do; return what is read at the end."""
    cluster.append("orders", records(b"b"))
    cluster.create_topic("more", replication_factor=2)
    cluster.append("more", records(b"c"))
    cluster.replicate(is_sweep=True)
    cluster.run_controller()
    cluster.maintain()
    cluster.describe_quorum()
    cluster.register_broker(3, cluster.image.brokers[1].root + "-3")
    cluster.describe_topic("more")
    cluster.describe_logs()
    cluster.metrics()
    cluster._node.maintenance.finish()
    return [values_of(cluster, "orders"), values_of(cluster, "more")]


def test_a_process_begins_without_the_root_that_it_names_first(cluster, folder):
    (folder / "m1").rename(folder / "away")
    replica_store.cache_clear()

    with Cluster.open(roots_in(folder)) as opened:
        assert everything(opened) == [[b"a", b"b"], [b"c"]]
        assert opened.history("orders", 0)
        found = opened.describe_quorum()

    assert not (folder / "m1").exists()
    assert found.leader.node_id != 1
    (folder / "away").rename(folder / "m1")
    cluster.append("orders", records(b"d"))
    cluster._node.maintenance.finish()
    assert cluster.fsck().findings == ()
    assert cluster.describe_quorum().voters[0].problem is None
