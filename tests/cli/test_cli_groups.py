"""`consumer-groups`: Kafka's verbs and columns over the offsets that queries commit."""

from datetime import UTC, datetime, timedelta

import pytest

HOUR = timedelta(hours=1)
HEADER = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]


@pytest.fixture
def now():
    """When the test began. Its file was imported at the start of the run, half an hour before."""
    return datetime.now(UTC)


@pytest.fixture
def topic(new_topic, cluster, now):
    """Two partitions: five records an hour apart, the last of now, and none."""
    topic = new_topic(partitions=2)
    cluster.append(
        topic,
        [
            {"key": None, "value": b"v", "timestamp": now - (4 - n) * HOUR, "partition": 0}
            for n in range(5)
        ],
    )
    return topic


@pytest.fixture
def group(topic, cluster):
    """A group two records behind; named after its topic, so that no other test has it."""
    group = f"group-of-{topic}"
    cluster.alter_group_offsets(group, {(topic, 0): 3, (topic, 1): 0})
    return group


def positions(cluster, group):
    return {each.name.partition: each.offset for each in cluster.describe_group(group)}


def test_groups_are_listed_and_described_as_kafka_does(call, group, topic):
    lines = [
        line.split()
        for line in call("consumer-groups", "--describe", "--group", group).splitlines()
    ]

    assert lines == [HEADER, [group, topic, "0", "3", "5", "2"], [group, topic, "1", "0", "0", "0"]]
    assert group in call("consumer-groups", "--list").split()
    assert {"group": group, "state": "Empty"} in call.json("consumer-groups", "--list")
    assert (
        call.json("consumer-groups", "--describe", "--all-groups").count(
            {
                "group": group,
                "topic": topic,
                "partition": 0,
                "current_offset": 3,
                "log_end_offset": 5,
                "lag": 2,
            }
        )
        == 1
    )


def without_a_zone(at):
    return at.replace(tzinfo=None).isoformat()


# fmt: off
RESETS = [  # target, offset in the partition of five records, in the empty one
    pytest.param(lambda now: ("--to-earliest",),                                0, 0, id="earliest"),
    pytest.param(lambda now: ("--shift-by", 9),                                 5, 0, id="shift"),
    # Without a zone it is UTC.
    pytest.param(lambda now: ("--to-datetime", without_a_zone(now - HOUR)),     3, 0, id="datetime"),
]
# fmt: on


@pytest.mark.parametrize("target, first, second", RESETS)
def test_a_reset_is_shown_and_done_when_asked_for(
    call, cluster, group, topic, now, target, first, second
):
    of_group = ("--group", group, "--all-topics")
    reset = ("consumer-groups", "--reset-offsets", *of_group, *target(now))

    shown = call.json(*reset)
    dry_run = call.json(*reset, "--dry-run")

    assert [row["new_offset"] for row in shown["offsets"]] == [first, second]
    assert [row["current_offset"] for row in shown["offsets"]] == [3, 0]
    assert shown == dry_run
    assert shown["dry_run"]
    assert positions(cluster, group) == {0: 3, 1: 0}

    done = call.json(*reset, "--execute")

    assert done == {**shown, "dry_run": False}
    assert positions(cluster, group) == {0: first, 1: second}


def test_offsets_of_a_topic_and_whole_groups_are_deleted(call, cluster, group, topic):
    of_topic = ("consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    whole = ("consumer-groups", "--delete", "--group", group)

    assert "there is no terminal to ask at" in call.refused(*of_topic)
    assert "there is no terminal to ask at" in call.refused(*whole)
    assert "2 records would be committed, and nothing was" in call(*whole, "--dry-run")
    assert positions(cluster, group) == {0: 3, 1: 0}

    assert call.json(*of_topic, "--yes")["deleted"] == [{"topic": topic, "partition": 1}]
    assert positions(cluster, group) == {0: 3}
    assert call(*whole, "--yes").splitlines()[1] == f"deleted  {group}"
    assert group not in cluster.list_groups()


def test_members_are_described_and_removed(call, group, topic, cluster):
    named = ("--group", group)
    with cluster.consumer(topic, group=group, group_instance_id="one") as consumer:
        consumer.poll(0)

        [member] = call.json("consumer-groups", "--describe", *named, "--members")
        assert member["assignment"] == [f"{topic}-0", f"{topic}-1"]
        assert (member["instance_id"], member["partition_count"]) == ("one", 2)
        [state] = call.json("consumer-groups", "--describe", *named, "--state")
        assert (state["state"], state["member_count"]) == ("Stable", 1)
        stable = call.json("consumer-groups", "--list", "--state")
        assert {"group": group, "state": "Stable"} in stable
        refused = call.refused("consumer-groups", "--delete", *named, "--yes")
        assert "has 1 member:" in refused
        assert "--remove-members" in refused

        removal = ("consumer-groups", "--remove-members", *named, "--member")
        assert call.json(*removal, "nobody", "--yes")["removed"] == []
        call(*removal, member["consumer_id"], "--yes")
        assert call.json("consumer-groups", "--describe", *named, "--members") == []
        assert "takes one --group" in call.refused(
            "consumer-groups", "--remove-members", *named, "--group", "b", "--yes"
        )


def test_a_group_with_members_and_no_offsets_is_there_and_is_not_deleted(call, topic, cluster):
    named = ("--group", f"new-{topic}")
    with cluster.consumer(topic, group=named[1], enable_auto_commit=False) as consumer:
        consumer.poll(0)

        for action in (("--delete",), ("--delete-offsets", "--topic", topic)):
            refused = call.refused("consumer-groups", *action, *named, "--yes")
            assert "has 1 member:" in refused
        assert named[1] in cluster.list_groups()
        assert cluster.describe_group(named[1]) == []
        assert call.json("consumer-groups", "--describe", *named) == []
