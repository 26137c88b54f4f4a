"""Passes of the controller, rounds of replication, and checks: what they do and what they say."""

from tests.cluster.disks import records


def test_round_of_replication_copies_and_says_whether_all_are_caught_up(call, new_topic, cluster):
    topic = new_topic(b"a", replica_assignment={0: [1, 2]})
    cluster.append(topic, records(b"b", b"c"), acks=1)

    report = call.json("replicate", "--topic", topic)

    assert (report["copied_records"], report["is_caught_up"]) == (2, True)
    assert report["not_looked_at"] == 0
    sweep = call.json("replicate", "--topic", topic, "--sweep")
    assert (sweep["partition_count"], sweep["not_looked_at"]) == (1, 0)
    assert "is caught up       yes" in call("replicate", "--topic", topic, "--sweep")


def test_round_that_cannot_reach_a_follower_says_so(call, new_topic, cluster, disks):
    topic = new_topic(b"a", replica_assignment={0: [1, 4]})
    cluster.append(topic, records(b"b"), acks=1)
    disks.take_away(4)
    try:
        report = call.json("replicate", "--topic", topic, code=1)
    finally:
        disks.give_back(4)
        cluster.run_controller()
        cluster.replicate()

    assert not report["is_caught_up"]
    assert f"{topic}-0" in report["failures"][0]


def test_the_controller_is_shown_and_runs_a_pass(call, disks, cluster):
    before = call.json("controller", "--describe")
    assert before["brokers_active"] == 4
    disks.take_away(4)
    try:
        report = call.json("controller", "--run")
        during = call.json("controller", "--describe")
    finally:
        disks.give_back(4)
    back = call("controller", "--run", "--seconds", 0.05)
    cluster.replicate()

    assert report["fenced"] == [4]
    assert (during["brokers_active"], during["brokers_fenced"]) == (3, 1)
    assert during["controller"] is None
    assert during["controller_epoch"] > before["controller_epoch"]
    assert "unfenced         4" in back


def test_whole_cluster_is_checked(call):
    report = call.json("fsck", "--quick")

    assert report["is_clean"]
    assert not report["is_deep"]
    assert call("fsck").endswith("Nothing was found.\n")
