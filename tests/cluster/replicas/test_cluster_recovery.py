"""Nobody in sync is left: eligible and proven leaders lose nothing, unclean ones say what."""

import shutil

import pytest

from tests.cluster.disks import isr_of, partition_of, records, values_of

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
