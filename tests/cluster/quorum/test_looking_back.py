"""The past, and what would be, are told with any of three metadata roots away."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.spark.run.opening import replica_store
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
    brokers = {number: folder / str(number) for number in (1, 2, 3)}
    with Cluster.create(roots_in(folder), brokers, configs=QUICK) as cluster:
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        cluster.append("orders", records(b"a"))
        yield cluster


def each_by_turns():
    """Return each root, lost before a process opens the cluster or later: one of both by default."""
    return [
        pytest.param(
            f"m{number}",
            is_new,
            id=f"{'opened without it' if is_new else 'open before'}-m{number}",
            marks=[pytest.mark.long] * (number % 2 != is_new),
        )
        for number in (1, 2, 3)
        for is_new in (True, False)
    ]


@pytest.mark.parametrize("lost, is_new", each_by_turns())
def test_the_past_and_what_would_be_are_told_without_one_root(cluster, folder, lost, is_new):
    moment = cluster.image.offset
    (folder / "1").rename(folder / "1-away")
    cluster.run_controller()
    (folder / "1-away").rename(folder / "1")
    cluster.append("orders", records(b"b"))
    history, events = cluster.history("orders", 0), cluster.broker_history()
    foreseen = cluster.what_if(broker_dies=2)
    with Cluster.open(roots_in(folder), as_of=moment) as then:
        foreseen_then = then.what_if(broker_dies=1)
    replayed = cluster.replay({"min.insync.replicas": 3})
    (folder / lost).rename(folder / "away")
    replica_store.cache_clear()

    looked = Cluster.open(roots_in(folder)) if is_new else cluster
    then = Cluster.open(roots_in(folder), as_of=moment)

    assert looked.history("orders", 0) == history
    assert looked.broker_history() == events
    # Without the first, another leads, whose no-op is one record more.
    assert looked.what_if(broker_dies=2).partitions == foreseen.partitions
    assert looked.replay({"min.insync.replicas": 3}) == replayed
    assert then.image.offset == moment
    assert then.history("orders", 0) == [e for e in history if e.metadata_offset < moment]
    assert values_of(then, "orders") == [b"a"]
    assert then.what_if(broker_dies=1) == foreseen_then
    then.close()
    looked.close()
