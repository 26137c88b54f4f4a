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
