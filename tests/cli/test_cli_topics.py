"""`topics` and `configs` do what kafka-topics and kafka-configs do."""

import pytest


def rows(text):
    """Return the cells of lines, after the titles."""
    return [line.split() for line in text.splitlines()[1:]]


def test_topic_is_created_as_asked_and_described(call, cluster):
    answer = call.json(
        *("topics", "--create", "--topic", "made", "--replica-assignment", "1:2:3,2:3:4"),
        *("--config", "min.insync.replicas=2", "--config", "retention.ms=5"),
    )

    assert answer["created"]
    assert answer["topic_id"] == cluster.image.topic_ids["made"]
    [described] = call.json("topics", "--describe", "--topic", "made")
    assert described["configs"] == {"min.insync.replicas": "2", "retention.ms": "5"}
    assert [each["replicas"] for each in described["partitions"]] == [[1, 2, 3], [2, 3, 4]]
    assert [each["leader"] for each in described["partitions"]] == [1, 2]


def test_description_for_people_has_a_line_for_the_topic_and_one_a_partition(call, new_topic):
    name = new_topic(replica_assignment={0: [1, 2], 1: [3, 4]}, configs={"segment.bytes": 2**21})

    [summary, *table] = call("topics", "--describe", "--topic", name).splitlines()

    assert summary.startswith(f"Topic: {name}  TopicId: ")
    assert summary.endswith(
        "PartitionCount: 2  ReplicationFactor: 2  Configs: segment.bytes=2097152"
    )
    assert rows("\n".join(table)) == [
        [name, "0", "1", "1,2", "1,2", "-", "-", "-", "-"],
        [name, "1", "3", "3,4", "3,4", "-", "-", "-", "-"],
    ]


def test_topic_that_is_there_is_no_error_if_that_is_said(call, new_topic):
    name = new_topic()

    assert not call.json("topics", "--create", "--topic", name, "--if-not-exists")["created"]
    assert "exists already" in call.refused("topics", "--create", "--topic", name)


def test_names_are_listed_by_pattern_and_by_having_settings(call, new_topic):
    plain, set_up = new_topic(), new_topic(configs={"retention.ms": 1})

    assert {plain, set_up} <= set(call("topics", "--list").splitlines())
    assert call.json("topics", "--list", "--topic", f"{plain},{set_up}") == sorted([plain, set_up])
    listed = call.json("topics", "--list", "--topics-with-overrides")
    assert set_up in listed
    assert plain not in listed


def test_a_name_is_never_taken_for_a_pattern(call, cluster):
    cluster.create_topic("axb")
    delete = ("topics", "--delete", "--yes")

    call(*delete, "--topic", "a.b", "--if-exists")
    alter = ("configs", "--alter", "--entity-type", "topics", "--add-config", "retention.ms=1")
    assert "there is no topic 'a.b'" in call.refused(*alter, "--entity-name", "a.b")
    assert not cluster.image.topic("axb").configs

    assert call.json(*delete, "--include", "a.b")["deleted"] == ["axb"]


@pytest.fixture
def troubled(call, new_topic, cluster, disks):
    """Two topics of which one has its leader's disk away and may not lose another."""
    sound = new_topic(replica_assignment={0: [1, 2, 3]})
    lonely = new_topic(replica_assignment={0: [4]})
    short = new_topic(replica_assignment={0: [4, 1], 1: [1, 2]}, configs={"min.insync.replicas": 2})
    disks.take_away(4)
    cluster.run_controller()
    yield sound, lonely, short
    disks.give_back(4)
    cluster.run_controller()
    cluster.replicate()


def test_filters_show_what_is_wrong_and_nothing_else(call, troubled):
    _, lonely, short = troubled

    def shown(option):
        found = call.json("topics", "--describe", "--topic", ",".join(troubled), option)
        return {(each["topic"], row["partition"]) for each in found for row in each["partitions"]}

    assert shown("--under-replicated-partitions") == {(short, 0)}
    assert shown("--under-min-isr-partitions") == {(short, 0)}
    assert shown("--at-min-isr-partitions") == {(lonely, 0), (short, 1)}
    assert shown("--unavailable-partitions") == {(lonely, 0)}
    listed = call.json("topics", "--list", "--unavailable-partitions", "--include", "topic-.*")
    assert listed == [lonely]
    lines = call("topics", "--describe", "--topic", short, "--under-min-isr-partitions")
    assert rows(lines) == [
        [short, "0", "1", "4,1", "1", "4", "-", "-", "under-replicated,under-min-isr"]
    ]


def test_partitions_are_added_and_empty_ones_removed(call, new_topic, cluster):
    name = new_topic(partitions=2)

    assert call.json("topics", "--alter", "--topic", name, "--partitions", 5)["altered"] == [
        {"topic": name, "partitions_before": 2, "partitions": 5}
    ]
    fewer = ("topics", "--alter", "--topic", name, "--partitions", 1)
    assert "removing 4 partitions of topic" in call.refused(*fewer)
    assert len(cluster.describe_topic(name).partitions) == 5
    call(*fewer, "--yes")

    assert len(cluster.image.topic(name).partitions) == 1


def test_added_partitions_are_where_they_are_assigned(call, new_topic, cluster):
    name = new_topic(partitions=1)
    brokers = list(cluster.image.topic(name).partitions[0].replicas)
    there = ":".join(str(each) for each in brokers)
    added = ":".join(str(each) for each in reversed(brokers))
    alter = ("topics", "--alter", "--topic", name, "--replica-assignment", f"{there},{added}")

    call(*alter, "--partitions", 2)

    partitions = cluster.image.topic(name).partitions
    assert [list(each.replicas) for each in partitions.values()] == [brokers, brokers[::-1]]
    assert "leave out what does not fit" in call.refused(*alter, "--partitions", 1)


def test_partitions_with_records_are_removed_only_if_that_is_said_and_confirmed(
    call, new_topic, cluster
):
    name = new_topic(b"a", b"b", partitions=1)
    cluster.add_partitions(name, to=2)
    cluster.append(name, [{"key": None, "value": b"c", "partition": 1}])
    alter = ("topics", "--alter", "--topic", name, "--partitions", 1)

    assert "1 records" in call.refused(*alter, "--yes")
    assert "removing 1 partition of topic" in call.refused(*alter, "--records", "drop")
    assert len(cluster.image.topic(name).partitions) == 2
    call(*alter, "--records", "drop", "--yes")

    assert len(cluster.image.topic(name).partitions) == 1


def test_one_of_several_that_is_refused_leaves_all_as_they_were(call, new_topic, cluster):
    first, second = new_topic(partitions=1), new_topic(partitions=3)
    alter = ("topics", "--alter", "--topic", f"{first},{second}", "--partitions", 3)

    refusal = call.refused(*alter)

    assert f"topic {second!r} has 3 partitions and can't be given 3" in refusal
    assert len(cluster.image.topic(first).partitions) == 1


def test_topics_are_deleted_once_confirmed(call, new_topic, cluster):
    names = [new_topic(b"a"), new_topic(b"b", b"c")]
    delete = ("topics", "--delete", "--topic", ",".join(names))

    refusal = call.refused(*delete)
    assert "2 topics" in refusal
    assert "3 records" in refusal
    assert set(names) <= cluster.image.topic_ids.keys()
    assert call.json(*delete, "--yes")["deleted"] == sorted(names)

    assert not set(names) & cluster.image.topic_ids.keys()
    assert "there is no topic" in call.refused(*delete, "--yes")
    assert call.json(*delete, "--yes", "--if-exists")["deleted"] == []


DRY_RUNS = [
    (("topics", "--create", "--topic", "other", "--partitions", 2), ["TopicRecord", "PartitionRecord", "PartitionRecord"]),
    (("topics", "--alter", "--topic", "{topic}", "--partitions", 2), ["PartitionRecord"]),
    (("topics", "--delete", "--topic", "{topic}"), ["RemoveTopicRecord"]),
    (("configs", "--alter", "--topic", "{topic}", "--add-config", "retention.ms=7"), ["ConfigRecord"]),
]  # fmt: skip


@pytest.mark.parametrize("arguments, expected", DRY_RUNS)
def test_dry_run_shows_the_records_and_commits_nothing(
    call, new_topic, cluster, arguments, expected
):
    name = new_topic(b"a")
    before = cluster.image
    words = [str(each).format(topic=name) for each in arguments]

    answer = call.json(*words, "--dry-run")
    lines = call(*words, "--dry-run").splitlines()

    assert answer["dry_run"]
    assert [each["record_type"] for each in answer["records"]] == expected
    assert all(each["cause"].endswith("by request") for each in answer["records"])
    assert len(lines) == len(expected) + 2
    assert cluster.image == before


def test_settings_are_altered_and_shown_with_their_source(call, new_topic):
    name = new_topic(configs={"retention.bytes": 5})

    call(
        *("configs", "--alter", "--topic", name, "--delete-config", "retention.bytes"),
        *("--add-config", "cleanup.policy=[compact,delete],segment.bytes=2097152"),
        *("--add-config", "retention.ms=9"),
    )

    shown = call.json("configs", "--describe", "--topic", name)
    assert {each["name"]: (each["value"], each["source"]) for each in shown} == {
        "cleanup.policy": ("compact,delete", "topic"),
        "retention.ms": ("9", "topic"),
        "segment.bytes": ("2097152", "topic"),
    }


def test_settings_of_the_cluster_are_altered(call, cluster):
    alter = ("configs", "--alter", "--add-config", "num.partitions=3")

    dry_run = call.json(*alter, "--dry-run")
    call(*alter)

    assert [each["config_value"] for each in dry_run["records"]] == ["3"]
    assert cluster.image.settings().integer("num.partitions") == 3
    call("configs", "--alter", "--delete-config", "num.partitions")
    assert "num.partitions" not in cluster.image.configs


def test_all_settings_that_hold_are_shown_with_where_they_come_from(call, new_topic):
    name = new_topic(configs={"min.insync.replicas": 2})

    everything = call.json("configs", "--describe", "--topic", name, "--all")
    of_cluster = call.json("configs", "--describe")

    sources = {each["name"]: each["source"] for each in everything}
    assert sources["min.insync.replicas"] == "topic"
    assert sources["retention.bytes"] == "default"
    assert "broker.session.timeout.ms" not in sources
    assert {each["name"]: each["value"] for each in of_cluster}[
        "broker.session.timeout.ms"
    ] == "240"
