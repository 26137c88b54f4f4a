"""What if, and what would have been, asked of clusters on real tables."""

from tests.cluster.disks import records
from tests.fsck.lives import live


def test_what_was_foreseen_comes_true(disks):
    cluster = disks.cluster
    cluster.create_topic("orders", partitions=6, replication_factor=3)
    cluster.create_topic("single", replica_assignment={0: [1], 1: [2]})
    cluster.append("orders", records(*[b"%d" % each for each in range(30)]))
    cluster.append("single", [("a", b"1"), ("b", b"2"), ("c", b"3")])
    before = cluster.image

    foreseen = cluster.what_if(broker_dies=1)

    assert cluster.image == before
    disks.take_away(1)
    cluster.run_controller()
    for each in foreseen.partitions:
        now = cluster.describe_topic(each.name.topic).partitions[each.name.partition]
        assert (now.leader, now.isr) == (each.leader_after, each.isr_after)
        assert now.is_under_min_isr == each.is_under_min_isr
    assert [str(each.name) for each in foreseen.offline] == ["single-0"]
    assert foreseen.records_at_risk == cluster.offsets("single")[0].high_watermark


def test_a_cluster_that_everything_has_happened_to_comes_out_the_same(disks):
    live(disks)

    found = disks.cluster.replay({})

    assert found.differences == ()
    assert found.instead == found.recorded
    assert found.recorded.elections > 0


def test_a_partition_that_waited_would_have_been_led_by_another(disks):
    cluster = disks.cluster
    cluster.create_topic("orders", replica_assignment={0: [1, 2]})
    cluster.append("orders", records(b"a"))
    disks.take_away(2)
    cluster.run_controller()
    cluster.append("orders", records(b"b", b"c"))
    disks.take_away(1)
    disks.give_back(2)
    cluster.run_controller()  # which can't give it to broker 2
    disks.give_back(1)
    cluster.run_controller()

    found = cluster.replay({"unclean.leader.election.enable": True})

    assert (found.differences[0].recorded, found.differences[0].instead) == (None, 2)
    assert found.instead.lost_records_max == 2
    assert found.instead.offline_seconds < found.recorded.offline_seconds
    assert cluster.replay({"min.insync.replicas": 2}).instead.refused_records == 2
