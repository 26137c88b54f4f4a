"""A cluster that was closed says so, whatever it is asked for."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import ClusterClosedError
from kafka_on_spark.produce import append_rounds
from tests.bad_input.refusals import check_sentence, written
from tests.cluster.disks import new_disks

# fmt: off
CALLS = {
    "add_partitions":        lambda cluster, folder: cluster.add_partitions("orders", to=9),
    "alter_cluster_configs": lambda cluster, folder: cluster.alter_cluster_configs({"num.partitions": 2}),
    "alter_group_offsets":   lambda cluster, folder: cluster.alter_group_offsets("g", {("orders", 0): 1}),
    "add_controller":        lambda cluster, folder: cluster.add_controller(folder / "voter"),
    "alter_topic_configs":   lambda cluster, folder: cluster.alter_topic_configs("orders", {"retention.ms": 1}),
    "append":                lambda cluster, folder: cluster.append("orders", [("k", "v")] * 9),
    "broker_history":        lambda cluster, folder: cluster.broker_history(),
    "changes":               lambda cluster, folder: cluster.changes("orders", 1),
    "cancel_reassignment":   lambda cluster, folder: cluster.cancel_reassignment(),
    "consumer":              lambda cluster, folder: cluster.consumer("orders"),
    "create_topic":          lambda cluster, folder: cluster.create_topic("more"),
    "remove_group_members":  lambda cluster, folder: cluster.remove_group_members("g"),
    "describe_group_members": lambda cluster, folder: cluster.describe_group_members("g"),
    "delete_group":          lambda cluster, folder: cluster.delete_group("g"),
    "delete_records":        lambda cluster, folder: cluster.delete_records({("orders", 0): 1}),
    "delete_topic":          lambda cluster, folder: cluster.delete_topic("orders"),
    "describe_group":        lambda cluster, folder: cluster.describe_group("g"),
    "describe_logs":         lambda cluster, folder: cluster.describe_logs(),
    "describe_topic":        lambda cluster, folder: cluster.describe_topic("orders"),
    "drain_broker":          lambda cluster, folder: cluster.drain_broker(1),
    "elect_controller":      lambda cluster, folder: cluster.elect_controller(),
    "elect_leaders":         lambda cluster, folder: cluster.elect_leaders("unclean"),
    "fsck":                  lambda cluster, folder: cluster.fsck(),
    "describe_quorum":       lambda cluster, folder: cluster.describe_quorum(),
    "history":               lambda cluster, folder: cluster.history("orders"),
    "image":                 lambda cluster, folder: cluster.image,
    "list_groups":           lambda cluster, folder: cluster.list_groups(),
    "lose_replica":          lambda cluster, folder: cluster.lose_replica("orders", 0, 1),
    "maintain":              lambda cluster, folder: cluster.maintain(),
    "metrics":               lambda cluster, folder: cluster.metrics(),
    "openmetrics":           lambda cluster, folder: cluster.openmetrics(),
    "offsets":               lambda cluster, folder: cluster.offsets("orders"),
    "plan_reassignment":     lambda cluster, folder: cluster.plan_reassignment(),
    "producer":              lambda cluster, folder: cluster.producer(),
    "count":                 lambda cluster, folder: cluster.count("orders"),
    "read":                  lambda cluster, folder: cluster.read("orders"),
    "reassign":              lambda cluster, folder: cluster.reassign({("orders", 0): [1]}),
    "reassignment_progress": lambda cluster, folder: cluster.reassignment_progress(),
    "reassignments":         lambda cluster, folder: cluster.reassignments(),
    "register_broker":       lambda cluster, folder: cluster.register_broker(4, folder / "new"),
    "remove_controller":     lambda cluster, folder: cluster.remove_controller(1),
    "remove_partitions":     lambda cluster, folder: cluster.remove_partitions("orders", to=1),
    "replay":                lambda cluster, folder: cluster.replay(policy={"min.insync.replicas": 1}),
    "replicate":             lambda cluster, folder: cluster.replicate(is_sweep=True),
    "resume_broker":         lambda cluster, folder: cluster.resume_broker(1),
    "run_controller":        lambda cluster, folder: cluster.run_controller(),
    "table":                 lambda cluster, folder: cluster.table("orders"),
    "unregister_broker":     lambda cluster, folder: cluster.unregister_broker(1),
    "verify_reassignment":   lambda cluster, folder: cluster.verify_reassignment({("orders", 0): [1]}),
    "view":                  lambda cluster, folder: cluster.view("orders"),
    "what_if":               lambda cluster, folder: cluster.what_if(broker_dies=1),
}
# fmt: on
OF_NAMES = {"close", "create", "force_controller", "metadata_table", "open", "root"}
"""What needs no open cluster: to name, create, open, force and close it, and to say what it has
cost."""


@pytest.fixture(scope="module")
def closed():
    with new_disks() as disks:
        disks.cluster.create_topic("orders", partitions=3, replication_factor=3)
        disks.cluster.append("orders", [("k", "v")] * 9)
        disks.cluster.close()
        yield disks


def test_every_public_method_is_tried():
    public = {name for name in dir(Cluster) if not name.startswith("_")}

    assert public == CALLS.keys() | OF_NAMES


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_cluster_refuses(closed, name):
    before = written(closed.base)

    with pytest.raises(ClusterClosedError) as caught:
        CALLS[name](closed.cluster, closed.base)

    check_sentence(str(caught.value), "the cluster was closed", "open it again with Cluster.open")
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
