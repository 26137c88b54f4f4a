"""`consume`: where it begins and ends, what it prints, and what of a group it commits."""

import json
from datetime import UTC, datetime

import pytest

from kafka_on_spark import Record
from kafka_on_spark.cli import consume
from kafka_on_spark.consume import consuming
from kafka_on_spark.consume.consumer import Consumer


@pytest.fixture
def printed(call):
    """Prints what a call of `consume` that must succeed prints."""

    def run(topic, *arguments):
        result = call._run("consume", "--topic", topic, *arguments)
        assert result.code == 0, result
        assert result.complaint.startswith("Processed a total of ")
        return result.out

    return run


def _texts(*values):
    return "".join(f"{each}\n" for each in values)


def test_end_is_what_was_committed_when_it_began(printed, new_topic):
    topic = new_topic(b"a", b"b", b"c")

    assert printed(topic, "--exit") == _texts("a", "b", "c")
    assert printed(topic, "--from-beginning", "-e") == _texts("a", "b", "c")
    assert printed(topic, "--offset", "1", "-e") == _texts("b", "c")
    assert printed(topic, "--offset", "-1", "-e") == _texts("c")
    assert printed(topic, "--offset", "latest", "-e") == ""
    assert printed(topic, "--offset", "42", "-e") == "", "nothing stands there yet"
    assert printed(topic, "--offset", "42", "--timeout-ms", 1) == ""


@pytest.mark.parametrize("end", [("-e",), ("--timeout-ms", 1)], ids=lambda end: end[0])
def test_it_ends_with_an_error_where_no_replica_can_be_read(
    call, new_topic, disks, monkeypatch, end
):
    """What can be read is printed. Replicas that are away for a moment are waited for."""
    monkeypatch.setattr(consume, "UNREADABLE_MS", 1)
    topic = new_topic(replica_assignment={0: [1], 1: [2]})
    disks.cluster.append(topic, [Record(None, "a", partition=1)])
    disks.cluster.append(topic, [Record(None, "b", partition=0)])

    disks.take_away(1)
    try:
        result = call._run("consume", "--topic", topic, "--from-beginning", *end)
    finally:
        disks.give_back(1)

    assert result.code == 2
    assert f"{topic}-0 can't be read from any replica" in result.complaint
    assert result.out == "a\n"
    assert call("consume", "--topic", topic, "--from-beginning", "-e") == "b\na\n"


def test_an_end_is_looked_for_where_records_were_printed_and_nowhere_else(
    printed, new_topic, cluster, monkeypatch
):
    """Else a call of P partitions asks P² positions."""
    count, asked_for, position = 40, [], Consumer.position
    topic = new_topic(partitions=count)
    cluster.append(topic, [Record(None, "x", partition=each) for each in range(count)])

    def noted(consumer, name):
        asked_for.append(name)
        return position(consumer, name)

    monkeypatch.setattr(Consumer, "position", noted)
    monkeypatch.setattr(consuming, "GATHER_MS", 0)  # a poll returns what one partition has

    assert printed(topic, "--from-beginning", "-e") == _texts(*"x" * count)
    assert len(asked_for) <= 3 * count


def test_maximum_ends_it_in_the_middle_of_a_batch(printed, new_topic):
    topic = new_topic(b"a", b"b", b"c")

    assert printed(topic, "--from-beginning", "--max-messages", 2) == _texts("a", "b")
    assert printed(topic, "--max-messages", 0) == ""


def test_no_record_for_the_timeout_ends_it(printed, new_topic):
    topic = new_topic(b"a")

    assert printed(topic, "--from-beginning", "--timeout-ms", 1) == _texts("a")
    assert printed(topic, "--timeout-ms", 1) == ""


def test_only_partitions_that_are_asked_for_are_printed(printed, new_topic, cluster):
    topic = new_topic(partitions=3)
    cluster.append(topic, [Record(None, str(each), partition=each) for each in range(3)])

    assert printed(topic, "-p", 1, "-e") == _texts(1)
    assert sorted(printed(topic, "-p", 0, "-p", 2, "-e").split()) == ["0", "2"]


def test_topics_of_an_expression_are_read_together(call, new_topic):
    first, second = new_topic(b"a"), new_topic(b"b")

    said = call("consume", "--include", f"{first}|{second}", "-e")

    assert sorted(said.splitlines()) == ["a", "b"]


def test_a_record_is_printed_by_kafkas_properties(printed, new_topic):
    topic = new_topic(b"a")

    keyed = ("--property", "print.key=true", "--property", "key.separator= ")
    assert printed(topic, "-e", *keyed) == "key a\n"
    assert printed(topic, "-e", "--property", "print.offset=true") == "Offset:0\ta\n"
    assert printed(topic, "-e", "--property", "print.epoch=true") == "Epoch:0\ta\n"


def test_a_quiet_call_says_nothing_beside_the_records(call, new_topic, tmp_path):
    topic = new_topic(b"a")
    (tmp_path / "lines").write_text("b\n")

    result = call._run("consume", "--topic", topic, "-qe")
    said = call("produce", "-q", "--topic", topic, tmp_path / "lines")

    assert (result.code, result.out, result.complaint) == (0, "a\n", "")
    assert said == ""


@pytest.mark.smoke
def test_json_that_is_printed_is_appended_again_whole(call, printed, new_topic, cluster, tmp_path):
    topic, copy = new_topic(partitions=2), new_topic(partitions=2)
    at = datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    records = [
        Record(b"\xff", None, [("h", b"\xfe"), ("h", None)], at, 1),
        Record(None, "text \u202e\n", (), at, 0),
    ]
    cluster.append(topic, records)

    (tmp_path / "lines").write_text(printed(topic, "-e", "--json"))
    call("produce", "--topic", copy, "--json", tmp_path / "lines")

    assert cluster.read(copy).drop(["topic"]).equals(cluster.read(topic).drop(["topic"]))
    [line, _] = sorted((tmp_path / "lines").read_text().splitlines(), reverse=True)
    assert json.loads(line)["timestamp"] == "2026-01-01T00:00:00.000005Z"


@pytest.mark.smoke
def test_group_goes_on_where_it_stood_and_commits_what_was_printed(
    printed, new_topic, cluster, call
):
    topic = new_topic(b"a", b"b", b"c")
    group = ("--group", f"of-{topic}")

    assert printed(topic, *group, "--from-beginning", "--max-messages", 2) == _texts("a", "b")
    [row] = cluster.describe_group(group[1])
    assert row.offset == 2
    assert printed(topic, *group, "-e") == _texts("c")
    assert printed(topic, *group, "-e") == ""
    kept = ("--consumer-property", "enable.auto.commit=false")
    assert printed(topic, "--group", f"new-{topic}", "--from-beginning", "-e", *kept)
    assert f"new-{topic}" not in cluster.list_groups()


def test_flags_of_a_consumer_are_read_as_java_reads_them(printed, call, new_topic, cluster):
    topic = new_topic(b"a")
    commits = ("--consumer-property", "enable.auto.commit={}")
    group = ("--group", f"of-{topic}", "--from-beginning", "-e")

    assert printed(topic, *group, *(each.format("TRUE") for each in commits)) == _texts("a")
    assert printed(topic, *group) == ""
    refused = call.refused("consume", "--topic", topic, *(each.format("yes") for each in commits))
    assert "enable.auto.commit can't be 'yes': give true or false" in refused


REFUSED = [
    (("--include", "x"), "give one of --topic, --include"),
    (("--offset", "1", "--from-beginning"), "give one of --offset, --from-beginning"),
    (("--group", "g", "--offset", "1"), "give one of --group, --offset"),
    (("--group", "g", "-p", "0"), "give one of --group, --partition"),
    (("--json", "--property", "print.key=true"), "give one of --json, --property"),
    (("--value-deserializer", "x"), "No such option: --value-deserializer"),
    (("--consumer-property", "fetch.min.bytes=1"), "unknown property 'fetch.min.bytes'"),
    (("--consumer-property", "auto.offset.reset=none"), "can't begin at 'none'"),
    *((("--offset", each), f"can't begin at '{each}'") for each in ("noon", "1.5", "s@1", "")),
]


@pytest.mark.parametrize("arguments, why", REFUSED)
def test_options_that_mean_nothing_are_refused(call, arguments, why):
    assert why in call.refused("consume", "--topic", "any", *arguments)


def test_what_is_not_there_is_told(call, new_topic):
    topic = new_topic(b"a")

    assert "nowhere" in call._run("consume", "--topic", "nowhere", "-e").complaint
    assert call.ends_with(2, "consume", "--topic", topic, "-p", 7, "-e")
