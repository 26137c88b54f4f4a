"""A cluster that was closed says so, whatever it is asked for."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import ClusterClosedError
from kafka_on_spark.produce import append_rounds
from tests.bad_input.refusals import anything, check_sentence, written
from tests.cluster.disks import new_disks

# fmt: off
CALLS = {
    "add_controller":      lambda cluster, folder: cluster.add_controller(folder / "voter"),
    "alter_broker":        lambda cluster, folder: cluster.alter_broker(1, rack="a"),
    "alter_group_offsets": lambda cluster, folder: cluster.alter_group_offsets("g", {("orders", 0): 1}),
    "append":              lambda cluster, folder: cluster.append("orders", [("k", "v")] * 9),
    "delete_records":      lambda cluster, folder: cluster.delete_records({("orders", 0): 1}),
    "drain_broker":        lambda cluster, folder: cluster.drain_broker(1),
    "register_broker":     lambda cluster, folder: cluster.register_broker(4, folder / "new"),
    "resume_broker":       lambda cluster, folder: cluster.resume_broker(1),
    "unregister_broker":   lambda cluster, folder: cluster.unregister_broker(1),
}
# fmt: on
"""Methods that look at their arguments first. Any other is refused whatever it is given."""

OF_NAMES = {"close", "create", "force_controller", "fork", "metadata_table", "open", "root"}
"""What needs no open cluster: to name, create, open, force, fork and close it, and to say what it has
cost."""


@pytest.fixture(scope="module")
def closed():
    with new_disks() as disks:
        disks.cluster.create_topic("orders", partitions=3, replication_factor=3)
        disks.cluster.append("orders", [("k", "v")] * 9)
        disks.cluster.close()
        yield disks


def call(cluster, name, folder):
    if name in CALLS:
        CALLS[name](cluster, folder)
    elif callable(getattr(Cluster, name)):
        positional, named = anything(getattr(Cluster, name))
        getattr(cluster, name)(*positional, **named)
    else:
        getattr(cluster, name)


def test_a_closed_cluster_refuses_all_that_is_public(closed):
    before = written(closed.base)

    for name in {each for each in dir(Cluster) if not each.startswith("_")} - OF_NAMES:
        with pytest.raises(ClusterClosedError) as caught:
            call(closed.cluster, name, closed.base)

        check_sentence(str(caught.value), "the cluster was closed", "open it again with")
    assert written(closed.base) == before
    assert not (closed.base / "new").exists()


def test_threads_of_a_cluster_that_is_being_closed_say_so_too(closed):
    """Another thread's append, past all checks, comes to a pool that takes nothing any more."""
    tasks = closed.cluster._node.tasks

    with pytest.raises(ClusterClosedError, match="the cluster was closed"):
        tasks.run(lambda order, worker: order, [1, 2])


def test_an_append_that_is_under_way_when_its_cluster_is_closed_may_be_committed(monkeypatch):
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replication_factor=3)
        conclude = append_rounds.conclude_reports

        def close_and_conclude(*given, **named):
            cluster.close()
            conclude(*given, **named)

        monkeypatch.setattr(append_rounds, "conclude_reports", close_and_conclude)
        with pytest.raises(ClusterClosedError) as caught:
            cluster.append("orders", [("k", "v")], producer_id="p", sequence=0)

        words = ["in the middle of an append, which may be committed", "Cluster.open"]
        check_sentence(str(caught.value), *words)
        assert disks.open().append("orders", [("k", "v")], producer_id="p", sequence=0).is_duplicate
