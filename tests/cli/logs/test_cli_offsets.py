"""Offsets of partitions, now and at a time, and the deletion of records below some."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.cluster.disks import records

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def timed_topic(new_topic, cluster):
    topic = new_topic(partitions=1)
    for hours in (0, 1, 0):
        record = {"key": b"k", "value": b"%d" % hours, "timestamp": NOON + timedelta(hours=hours)}
        cluster.append(topic, [record])
    return topic


def test_offsets_are_start_high_watermark_and_end(call, new_topic, cluster):
    topic = new_topic(b"a", b"b", partitions=1)
    cluster.append(topic, records(b"c"), acks=1)

    [row] = call.json("get-offsets", "--topic", topic)

    assert row == {
        "topic": topic,
        "partition": 0,
        "log_start_offset": 0,
        "high_watermark": 2,
        "log_end_offset": 3,
    }
    assert call("get-offsets", "--topic", topic).splitlines()[1].split() == [
        topic,
        "0",
        "0",
        "2",
        "3",
    ]


@pytest.mark.parametrize(
    "time, offset",
    [
        pytest.param("earliest", 0, id="earliest"),
        pytest.param("latest", 3, id="latest"),
        pytest.param("-2", 0, id="kafkas-number-for-earliest"),
        pytest.param("-1", 3, id="kafkas-number-for-latest"),
        # The first of those with the largest timestamp, not the last record.
        pytest.param("max-timestamp", 1, id="max-timestamp"),
        pytest.param("2026-01-31T12:00:00Z", 0, id="at-the-time-of-the-first"),
        pytest.param("2026-01-31T13:00:00.001+01:00", 1, id="a-little-later-in-another-zone"),
        pytest.param("1769864400000", 1, id="milliseconds-since-1970"),
        pytest.param("2026-01-31T13:00:01Z", None, id="later-than-all"),
    ],
)  # fmt: skip
def test_offset_at_a_time(call, timed_topic, time, offset):
    [row] = call.json("get-offsets", "--topic", timed_topic, "--time", time)

    assert row["offset"] == offset


def test_partitions_are_named_by_their_numbers(call, new_topic):
    topic = new_topic(partitions=4)

    found = call.json("get-offsets", "--time", "latest", "--topic", topic, "--partitions", "3,0")

    assert [(each["topic"], each["partition"]) for each in found] == [(topic, 0), (topic, 3)]


def test_records_are_deleted_below_offsets_once_confirmed(call, new_topic, cluster, json_file):
    topic = new_topic(b"a", b"b", b"c", partitions=1)
    other = new_topic(b"a", b"b", partitions=1)
    file = json_file(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": 0, "offset": 1},
                {"topic": other, "partition": 0, "offset": -1},
            ],
        }
    )
    using = ("delete-records", "--offset-json-file", file)

    assert "deleting 3 records of 2 partitions can't be undone" in call.refused(*using)
    assert len(call.json(*using, "--dry-run")["records"]) == 2
    assert cluster.read(topic).num_rows == 3
    answer = call.json(*using, "--yes")

    assert [each["low_watermark"] for each in answer["partitions"]] == [1, 2]
    assert cluster.read(topic)["offset"].to_pylist() == [1, 2]
    assert cluster.read(other).num_rows == 0
