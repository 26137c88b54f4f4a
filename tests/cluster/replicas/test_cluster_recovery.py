"""Nobody in sync is left: eligible and proven leaders lose nothing, unclean ones say what."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.metadata.records import AdminResultRecord, PartitionChangeRecord
from kafka_on_spark.service.control.term import Term
from kafka_on_spark.storage.calls.random_ids import ID_SOURCE
from tests.cluster.disks import PATIENCE_MS, isr_of, partition_of, records, values_of

REPLICAS = {0: [1, 2, 3]}


def new_topic(disks, **configs):
    disks.cluster.create_topic(
        "orders",
        replica_assignment=REPLICAS,
        configs={"min.insync.replicas": "2", **configs},
    )
    disks.cluster.append("orders", records(b"a"))
    return disks.cluster


def leave_behind(disks, cluster) -> None:
    """Commit a record that broker 3 lacks; then leave broker 3 alone."""
    disks.take_away(3)
    cluster.run_controller()
    cluster.append("orders", records(b"b"))
    disks.take_away(1, 2)
    cluster.run_controller()
    disks.give_back(3)
    cluster.run_controller()


def catch_up(cluster) -> None:
    for _ in range(6):
        if cluster.replicate(is_sweep=True).is_caught_up:
            return
    raise AssertionError("somebody stays behind")


def last_cause(cluster) -> str:
    return cluster.history("orders", 0)[-1].cause or ""


def test_when_the_last_replica_in_sync_loses_its_log_an_eligible_one_leads(disks):
    """KIP-966: below the minimum nothing was committed without broker 2."""
    cluster = new_topic(disks)
    disks.take_away(3)
    cluster.run_controller()
    cluster.append("orders", records(b"b"))
    disks.take_away(2)
    cluster.run_controller()
    assert (isr_of(cluster, "orders"), partition_of(cluster, "orders").elr) == ([1], {2})
    shutil.rmtree(disks.folder(1, "orders"))
    disks.give_back(2)
    cluster.run_controller()

    cluster.replicate(is_sweep=True)
    cluster.run_controller()

    assert partition_of(cluster, "orders").leader == 2
    assert values_of(cluster, "orders") == [b"a", b"b"]
    disks.give_back(3)
    cluster.run_controller()
    catch_up(cluster)
    assert isr_of(cluster, "orders") == [1, 2, 3]
    assert disks.values_on(1, "orders") == [b"a", b"b"]


def test_a_replica_out_of_sync_that_has_all_that_is_committed_leads_cleanly(disks):
    cluster = new_topic(disks)
    disks.take_away(3)
    cluster.run_controller()
    disks.take_away(1, 2)
    cluster.run_controller()
    disks.give_back(3)

    report = cluster.run_controller()

    partition = partition_of(cluster, "orders")
    assert report.leaders_moved == 1
    assert (partition.leader, isr_of(cluster, "orders")) == (3, [3])
    assert (partition.unclean_generation, partition.high_watermark) == (0, 1)
    assert "proves to have all 1 committed offsets" in last_cause(cluster)
    disks.give_back(1, 2)
    cluster.run_controller()
    catch_up(cluster)
    cluster.append("orders", records(b"b"))
    assert [disks.values_on(each, "orders") for each in (1, 2, 3)] == [[b"a", b"b"]] * 3


def test_a_replica_that_lacks_a_committed_record_does_not_lead_by_itself(disks):
    cluster = new_topic(disks)

    leave_behind(disks, cluster)

    assert partition_of(cluster, "orders").leader is None
    disks.give_back(1)
    cluster.run_controller()
    assert values_of(cluster, "orders") == [b"a", b"b"]


@pytest.mark.parametrize("how", ["by configuration", "by request"])
def test_an_unclean_election_says_what_is_lost(disks, how):
    is_configured = how == "by configuration"
    settings = {"unclean.leader.election.enable": "true"} if is_configured else {}
    cluster = new_topic(disks, **settings)
    leave_behind(disks, cluster)

    if not is_configured:
        moved = cluster.elect_leaders("unclean", [("orders", 0)])
        assert [(each.topic, each.partition) for each in moved] == [("orders", 0)]

    partition = partition_of(cluster, "orders")
    assert (partition.leader, partition.unclean_generation) == (3, 1)
    assert (partition.high_watermark, partition.high_watermark_epoch) == (1, 0)
    assert "unclean election, offsets 1 to 1 are lost" in last_cause(cluster)
    assert values_of(cluster, "orders") == [b"a"]
    assert cluster.offsets("orders")[0].log_end_offset == 1
    disks.give_back(1, 2)
    cluster.run_controller()
    catch_up(cluster)
    cluster.append("orders", records(b"c"))
    assert [disks.values_on(each, "orders") for each in (1, 2, 3)] == [[b"a", b"c"]] * 3
    assert values_of(disks.open(), "orders") == [b"a", b"c"]


def test_an_unclean_election_is_asked_of_the_controller_through_the_log(disks):
    cluster = new_topic(disks)
    leave_behind(disks, cluster)
    cluster.alter_cluster_configs({"delivery.timeout.ms": PATIENCE_MS})  # for its answer
    other = disks.open()._services
    term = Term.claim(
        other.metadata, other.clock, controller_id="other", seen=cluster.image.controller,
        timeout_ms=other.timeout_ms,
    )  # fmt: skip
    is_over = threading.Event()

    def control():
        while not is_over.wait(0.01):
            term.serve_requests(ID_SOURCE)

    with ThreadPoolExecutor(1) as pool:
        controlling = pool.submit(control)
        try:
            moved = cluster.elect_leaders("unclean", [("orders", 0)])
        finally:
            is_over.set()
        controlling.result()
    term.resign()

    assert moved == [("orders", 0)]
    partition = partition_of(cluster, "orders")
    assert (partition.leader, partition.unclean_generation) == (3, 1)
    log = cluster._services.metadata.history()
    [deciding] = [
        batch for batch in log
        if any(getattr(record, "change", None) and record.change.unclean_generation == 1
               for record in batch.records)
    ]  # fmt: skip
    assert deciding.stamp.controller_epoch == term.epoch
    assert [type(each) for each in deciding.records] == [PartitionChangeRecord, AdminResultRecord]
    assert "unclean election, offsets 1 to 1 are lost" in last_cause(cluster)
    assert values_of(disks.open(), "orders") == [b"a"]


def test_an_unclean_election_may_lose_everything(disks):
    cluster = disks.cluster
    cluster.create_topic("orders", replica_assignment=REPLICAS)
    disks.take_away(3)
    cluster.run_controller()
    cluster.append("orders", records(b"a"))
    disks.give_back(3)
    cluster.run_controller()
    cluster.replicate()  # broker 3 is made, and fetches
    shutil.rmtree(disks.folder(3, "orders"))
    disks.take_away(3)
    cluster.run_controller()
    cluster.append("orders", records(b"b"))
    disks.take_away(1, 2)
    cluster.run_controller()
    disks.give_back(3)
    cluster.run_controller()

    moved = cluster.elect_leaders("unclean")

    assert moved == []  # its replica is lost, not empty
    assert partition_of(cluster, "orders").leader is None


def test_where_somebody_in_sync_can_lead_an_unclean_election_changes_nothing(disks):
    cluster = new_topic(disks)

    assert cluster.elect_leaders("unclean") == []
    assert partition_of(cluster, "orders").leader == 1


def test_another_kind_of_election_is_refused(disks):
    with pytest.raises(InvalidRequestError, match="'preferred' or 'unclean'"):
        disks.cluster.elect_leaders("hopeful")


def test_another_minimum_makes_nobody_eligible_any_more(disks):
    cluster = new_topic(disks)
    disks.take_away(2, 3)
    cluster.run_controller()
    assert partition_of(cluster, "orders").elr != frozenset()

    cluster.alter_topic_configs("orders", {"min.insync.replicas": "1"})
    cluster.append("orders", records(b"b"))

    assert partition_of(cluster, "orders").elr == frozenset()
    assert values_of(cluster, "orders") == [b"a", b"b"]
