"""`reassign-partitions`, `leader-election` and `brokers`: what moves, and who moves it."""

import json

import pytest

from tests.cluster.disks import isr_of, partition_of


def assignment(topic, replicas, partition=0):
    return {
        "version": 1,
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "replicas": replicas,
                "log_dirs": ["any"] * len(replicas),
            }
        ],
    }


def finish_moves(call, file):
    """Replicate and control until a move is done."""
    for _ in range(8):
        call.ends_with(0, "replicate")  # or 1, as long as somebody is behind
        call("controller", "--run")
        if call.ends_with(0, "reassign-partitions", "--verify", "--reassignment-json-file", file):
            return
    raise AssertionError(call("reassign-partitions", "--list"))


def test_reassignment_from_its_file_to_its_end(call, new_topic, cluster, json_file):
    topic = new_topic(b"a", b"b", replica_assignment={0: [1, 2, 3]})
    file = json_file(assignment(topic, [4, 2, 3]))
    using = ("--reassignment-json-file", file)

    started = call.json("reassign-partitions", "--execute", *using, "--throttle", 1_000_000)

    assert started["current"] == assignment(topic, [1, 2, 3])
    assert started["started"] == [{"topic": topic, "partition": 0}]
    [move] = call.json("reassign-partitions", "--list")
    assert (move["adding_replicas"], move["removing_replicas"]) == ([4], [1])
    assert (move["waits_for"], move["throttle_bytes_per_s"]) == ([4], 1_000_000)
    [progress] = cluster.reassignment_progress()
    assert move["bytes_to_copy"] == progress.total_bytes > progress.copied_bytes == 0
    verified = call.json("reassign-partitions", "--verify", *using, code=1)
    assert [each["status"] for each in verified["partitions"]] == ["in progress"]

    finish_moves(call, file)

    assert partition_of(cluster, topic).replicas == (4, 2, 3)
    assert call.json("reassign-partitions", "--verify", *using)["is_complete"]
    assert call.json("reassign-partitions", "--list") == []


def test_what_execute_prints_is_the_file_of_the_way_back(call, new_topic, cluster, json_file):
    topic = new_topic(replica_assignment={0: [1, 2]})
    lines = call(
        *("reassign-partitions", "--execute"),
        *("--reassignment-json-file", json_file(assignment(topic, [3, 2]))),
    ).splitlines()
    way_back = json_file(lines[2])

    cancelled = call.json("reassign-partitions", "--cancel", "--reassignment-json-file", way_back)

    assert cancelled["cancelled"] == [{"topic": topic, "partition": 0}]
    assert not partition_of(cluster, topic).is_reassigning
    # As in Kafka, who stays comes before who was to go: the order is put right by the file.
    call("reassign-partitions", "--execute", "--reassignment-json-file", way_back)
    call("reassign-partitions", "--verify", "--reassignment-json-file", way_back)
    assert partition_of(cluster, topic).replicas == (1, 2)
    refusal = call.refused("reassign-partitions", "--cancel", "--reassignment-json-file", way_back)
    assert "nothing to cancel" in refusal


def test_generated_plan_says_what_moves_and_is_executed_as_it_is(
    call, new_topic, cluster, json_file, tmp_path
):
    topic = new_topic(b"a", b"b", replica_assignment={0: [1, 2], 1: [1, 2]})
    chosen = json_file({"version": 1, "topics": [{"topic": topic}]})
    generate = ("reassign-partitions", "--generate", "--topics-to-move-json-file", chosen)

    plan = call.json(*generate, "--broker-list", "3,4", "--throttle", 1000)
    text = call(*generate, "--broker-list", "3,4")

    proposed = [each["replicas"] for each in plan["proposed"]["partitions"]]
    assert [sorted(each) for each in proposed] == [[3, 4], [3, 4]]
    assert {each[0] for each in proposed} == {3, 4}
    assert plan["current"] == call.json(*generate, "--broker-list", "1,2")["current"]
    sizes = {each["size_bytes"] for each in call.json("log-dirs", "--topic", topic)} - {0}
    assert plan["bytes_moved"] == 2 * sizes.pop()
    assert plan["estimated_seconds"] == plan["bytes_moved"] / 1000
    *_, last = text.splitlines()
    assert json.loads(last) == plan["proposed"]
    assert "bytes per s" in text
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "from-text.json").write_text(last)
    begin = ("reassign-partitions", "--execute", "--reassignment-json-file")
    dry_run = call.json(*begin, tmp_path / "from-text.json", "--dry-run")
    started = call.json(*begin, tmp_path / "plan.json")
    assert len(dry_run["records"]) == len(started["started"]) == 2
    assert partition_of(cluster, topic).target_replicas == tuple(proposed[0])
    call("reassign-partitions", "--cancel")


@pytest.fixture
def displaced(new_topic, cluster, disks):
    """A topic whose preferred leader was away, and is in sync again."""
    topic = new_topic(b"a", replica_assignment={0: [4, 1, 2]})
    disks.take_away(4)
    cluster.run_controller()
    disks.give_back(4)
    cluster.run_controller()
    cluster.replicate()
    assert isr_of(cluster, topic) == [1, 2, 4]
    return topic


def test_preferred_leaders_are_elected_where_they_are_in_sync(call, displaced, cluster, json_file):
    election = ("leader-election", "--election-type", "preferred")
    file = json_file({"partitions": [{"topic": displaced, "partition": 0}]})
    assert partition_of(cluster, displaced).leader == 1

    dry_run = call.json(*election, "--topic", displaced, "--dry-run")
    assert [each["leader"] for each in dry_run["records"]] == [4]
    answer = call.json(*election, "--path-to-json-file", file)

    assert answer["elected"] == [{"topic": displaced, "partition": 0, "leader": 4}]
    assert call.json(*election, "--topic", displaced, "--partition", 0)["elected"] == []


def test_unclean_election_is_confirmed_since_records_may_be_lost(call, new_topic, cluster, disks):
    topic = new_topic(b"a", replica_assignment={0: [4, 3]})
    disks.take_away(3)
    cluster.run_controller()
    cluster.append(topic, [("key", b"only on broker 4")])
    disks.take_away(4)
    disks.give_back(3)
    cluster.run_controller()
    election = ("leader-election", "--election-type", "unclean", "--topic", topic)
    try:
        assert partition_of(cluster, topic).leader is None

        assert f"({topic}-0)" in call.refused(*election)
        dry_run = call.json(*election, "--dry-run")
        answer = call.json(*election, "--yes")
    finally:
        disks.give_back(4)
        cluster.run_controller()
        cluster.replicate()

    assert "offsets 1 to 1 are lost" in dry_run["records"][0]["cause"]
    assert answer["elected"] == [{"topic": topic, "partition": 0, "leader": 3}]


def test_broker_is_registered_drained_resumed_and_unregistered(call, new_topic, cluster, disks):
    root = disks.root(9)
    register = ("brokers", "--register", "--broker", 9, "--root", root, "--rack", "a")

    [record] = call.json(*register, "--dry-run")["records"]
    assert (record["broker_id"], record["root"]) == (9, str(root))
    assert not root.exists()
    call(*register)
    topic = new_topic(b"a", replica_assignment={0: [9, 1]})
    dry_run = call.json("brokers", "--drain", "--broker", 9, "--dry-run")
    drained = call.json("brokers", "--drain", "--broker", 9)

    assert [each.get("leader") for each in dry_run["records"]] == [None, 1]
    assert drained["moved"] == [{"topic": topic, "partition": 0}]
    [row] = call.json("brokers", "--describe", "--broker", 9)
    assert (row["state"], row["rack"]) == ("draining", "a")
    assert (row["leaders"], row["replicas"], row["in_sync"]) == (0, 1, 0)
    call("brokers", "--resume", "--broker", 9)
    assert cluster.image.brokers[9].state.value == "active"
    assert "only an empty broker" in call.refused("brokers", "--unregister", "--broker", 9)
    cluster.delete_topic(topic)
    [record] = call.json("brokers", "--unregister", "--broker", 9, "--dry-run")["records"]
    assert record["record_type"] == "UnregisterBrokerRecord"
    assert list(root.glob(f"{topic}-*/*")), "a dry run removes nothing"
    call("brokers", "--unregister", "--broker", 9)
    assert not list(root.glob(f"{topic}-*")), "nobody would look at it any more"
    listed = [line.split()[0] for line in call("brokers", "--list").splitlines()]
    assert listed == ["BROKER", "1", "2", "3", "4"]


def test_another_disk_for_a_broker_with_replicas_is_confirmed(call, new_topic, cluster, disks):
    new_topic(b"a", replica_assignment={0: [1, 4]})
    disks.take_away(4)
    cluster.run_controller()
    register = ("brokers", "--register", "--broker", 4, "--root", disks.root("another"))
    try:
        refusal = call.refused(*register)
        bad_mode = call.refused(*register, "--root-mode", "077")
    finally:
        disks.give_back(4)
        cluster.run_controller()
        cluster.replicate()

    assert "can't be undone" in refusal
    assert "--root-mode can't be '077'" in bad_mode, "refused before anybody is asked"


def test_a_person_may_say_that_a_replica_is_lost(call, new_topic, cluster):
    topic = new_topic(b"a", replica_assignment={0: [1, 2, 3]})
    lost = ("replicas", "--topic", topic, "--partition", "0", "--broker", "3")
    uuid = partition_of(cluster, topic).uuid_of(3)

    assert "--lost is missing: give the replica up" in call.refused(*lost)
    assert "giving up the replica" in call.refused(*lost, "--lost")
    call.json(*lost, "--lost", "--yes")

    after = partition_of(cluster, topic)
    assert (sorted(after.isr), after.directory_of(3)) == ([1, 2], "lost")
    assert "name one of the brokers 1, 2" in call.refused(*lost, "--lost", "--yes")
    cluster.replicate()
    cluster.replicate()
    assert partition_of(cluster, topic).uuid_of(3) != uuid
    assert isr_of(cluster, topic) == [1, 2, 3]
