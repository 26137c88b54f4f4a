"""Upkeep is described, done, and told: what is due, and what was not looked at."""

from tests.cli.conftest import CommandLine
from tests.cluster.disks import new_disks, records


def test_logs_of_a_topic_are_described_and_what_is_due_is_done(call, new_topic):
    topic = new_topic(
        *(b"a", b"b"),
        replica_assignment={0: [1, 2]},
        configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0},
    )

    first, second = call.json("log-dirs", "--topic", topic)
    shown = call("log-dirs", "--topic", topic)

    assert (first["broker"], first["plain_segments"], first["log_end_offset"]) == (1, 2, 2)
    assert (first["first_dirty_offset"], first["is_leader"]) == (0, True)
    assert (second["broker"], second["is_leader"]) == (2, False)
    assert shown.splitlines()[1].split()[:3] == ["1", topic, "0"]

    decided = call.json("maintain", "--topic", topic, "--dry-run")
    assert [row["kind"] for row in decided["rows"]] == ["compaction"]
    call("maintain", "--topic", topic)

    assert call.json("maintain", "--topic", topic)["rows"] == []
    [partition] = call.json("topics", "--describe", "--topic", topic)[0]["partitions"]
    assert partition["compacted_below"] == 2


def test_upkeep_names_what_it_could_not_look_at():
    with new_disks(brokers=1) as disks:
        disks.cluster.create_topic("orders", replication_factor=1)
        disks.cluster.append("orders", records(b"a"))
        disks.take_away(1)
        disks.cluster.run_controller()
        call = CommandLine(str(disks.metadata_root))

        result = call._run("maintain")
        answer = call.json("maintain", code=1)

    assert (result.code, result.out.splitlines()[-1]) == (1, "Visited 0 replicas.")
    assert "not looked at: broker 1 is fenced" in result.complaint
    assert answer["rows"] == []
    assert answer["not_looked_at"] == ["broker 1 is fenced: its root, and its replicas"]
