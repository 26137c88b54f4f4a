"""What stands in logs: `get-offsets`, `delete-records`, `dump-log`, `log-dirs`, `metadata`, checks."""

from datetime import UTC, datetime, timedelta

import pytest

from kafka_on_spark.spark.wiring.fsck_services import check_cluster
from tests.cli.conftest import CommandLine
from tests.cluster.disks import new_disks, records

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def timed_topic(new_topic, cluster):
    """One partition with records of noon, of an hour later, and of noon again."""
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


def test_record_that_is_not_committed_is_at_no_time(call, timed_topic, cluster):
    late = {"key": b"k", "value": b"late", "timestamp": NOON + timedelta(days=1)}
    cluster.append(timed_topic, [late], acks=1)

    [row] = call.json("get-offsets", "--topic", timed_topic, "--time", "max-timestamp")

    assert (row["offset"], row["timestamp"]) == (1, "2026-01-31T13:00:00.000Z")


def test_partitions_are_named_one_by_one_and_by_ranges(call, new_topic):
    first, second = new_topic(partitions=4), new_topic(partitions=2)

    def shown(*arguments):
        found = call.json("get-offsets", "--time", "latest", *arguments)
        return [(each["topic"], each["partition"]) for each in found]

    chosen = f"{first}:1-3,{first}:0,{second}"
    assert shown("--topic-partitions", chosen) == [
        (first, 1), (first, 2), (first, 0), (second, 0), (second, 1),
    ]  # fmt: skip
    assert shown("--topic-partitions", f"{first}:2-") == [(first, 2), (first, 3)]
    assert shown("--topic", first, "--partitions", "3,0") == [(first, 0), (first, 3)]


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


def test_what_would_be_refused_is_refused_before_anybody_is_asked(
    call, new_topic, cluster, json_file
):
    topic = new_topic(b"a", partitions=1)
    file = json_file({"partitions": [{"topic": topic, "partition": 0, "offset": 77}]})

    shown, code = call.at_terminal("delete-records", "--offset-json-file", file, typed="y\n")
    refusal = call.refused("delete-records", "--offset-json-file", file)

    assert (code, "Go on?" in shown) == (2, False)
    assert "can't start at 77" in refusal
    assert "to ask at" not in refusal
    fewer = ("topics", "--alter", "--topic", topic, "--partitions", 0)
    assert "to ask at" not in call.refused(*fewer)


def test_dump_shows_each_batch_with_its_producer_and_whether_it_is_committed(
    call, new_topic, cluster
):
    topic = new_topic(partitions=1)
    cluster.append(topic, records(b"a", b"b"), producer_id="p", sequence=4)
    cluster.append(topic, records(b"c"), acks=1)

    first, second = call.json("dump-log", "--topic", topic, "--verify")

    assert (first["base_offset"], first["last_offset"], first["record_count"]) == (0, 1, 2)
    assert (first["producer_id"], first["sequence"]) == ("p", 4)
    assert (first["is_committed"], second["is_committed"]) == (True, False)
    assert (first["flaw"], second["flaw"]) == (None, None)
    [only] = call.json("dump-log", "--topic", topic, "--offset", 2)
    assert only["base_offset"] == 2


def test_dump_shows_records_from_an_offset_on(call, new_topic, cluster):
    topic = new_topic(partitions=1)
    cluster.append(
        topic,
        [
            {"key": b"k", "value": "né".encode(), "headers": [("h", b"1")], "timestamp": NOON},
            {"key": None, "value": b"\xff\x00", "headers": [], "timestamp": NOON},
        ],
    )

    found = call.json("dump-log", "--topic", topic, "--print-data-log")

    assert [(each["key"], each["value"], each["headers"]) for each in found] == [
        ("k", "né", [{"key": "h", "value": "1"}]),
        (None, {"base64": "/wA="}, []),
    ]
    assert found[0]["timestamp"] == "2026-01-31T12:00:00.000Z"
    [second] = call.json("dump-log", "--topic", topic, "--print-data-log", "--offset", 1)
    assert second["offset"] == 1


def test_dump_of_one_brokers_replica_finds_a_damaged_file_there_and_only_there(
    call, new_topic, disks
):
    topic = new_topic(b"a", replica_assignment={0: [1, 2]})
    file = next(disks.folder(2, topic).glob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)

    [sound] = call.json("dump-log", "--topic", topic, "--broker", 1, "--verify")
    [damaged] = call.json("dump-log", "--topic", topic, "--broker", 2, "--verify", code=1)
    by_digest = call.json("replica-verification", "--topic", topic)
    verified = call.json("replica-verification", "--topic", topic, "--deep", code=1)

    assert sound["flaw"] is None
    assert "not what its name says" in damaged["flaw"]
    assert by_digest["is_equal"]  # its name says what its bytes should be
    assert not verified["is_equal"]
    assert f"{topic}-0 on broker 2" in verified["partitions"][0]["differences"][0]
    assert "differ" in call("replica-verification", "--topic", topic, "--deep", code=1)
    assert call("fsck", code=1).endswith("1 findings.\n")
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_equal_replicas_are_verified(call, new_topic):
    topic = new_topic(b"a", b"b", partitions=1)

    answer = call.json("replica-verification", "--topic", topic)

    assert answer["is_equal"]
    assert [each["replica_count"] for each in answer["partitions"]] == [3]
    assert call("replica-verification", "--topics-include", topic).endswith(
        "The replicas of 1 partition are equal below the high watermark.\n"
    )


def test_log_dirs_are_what_lies_on_the_disks(call, new_topic, disks):
    topic = new_topic(b"a", b"b", replica_assignment={0: [1, 3]})

    rows = call.json("log-dirs", "--topic", topic)

    files = [
        sum(file.stat().st_size for file in disks.folder(broker_id, topic).glob("*.parquet"))
        for broker_id in (1, 3)
    ]
    assert [(each["broker"], each["size_bytes"]) for each in rows] == list(
        zip((1, 3), files, strict=True)
    )
    assert [each["broker"] for each in call.json("log-dirs", "--broker-list", "3,1")] != []
    assert "there is no broker 77" in call.refused("log-dirs", "--broker-list", "77")


def test_log_dir_that_is_away_says_so_in_its_row(call, new_topic, disks, cluster):
    topic = new_topic(b"a", replica_assignment={0: [1, 4]})
    disks.take_away(4)
    try:
        rows = call.json("log-dirs", "--topic", topic)
    finally:
        disks.give_back(4)
        cluster.run_controller()

    assert rows[0]["error"] is None
    assert rows[1]["size_bytes"] is None
    assert str(disks.root(4)) in rows[1]["error"]


def test_metadata_log_is_rows_with_causes_from_any_offset_on(call, new_topic, cluster):
    topic = new_topic(b"a", partitions=2)

    of_topic = call.json("metadata", "--log", "--topic", topic)
    everything = call.json("metadata", "--log")

    assert [each["metadata_offset"] for each in everything] == list(range(cluster.image.offset))
    kinds = [each["record_type"] for each in of_topic]
    assert kinds[:3] == ["TopicRecord", "PartitionRecord", "PartitionRecord"]
    # Records that name no topic, only its id, are found as well.
    assert "HighWatermarkRecord" in kinds
    assert of_topic[0]["cause"] == "topic created by request"
    middle = of_topic[1]["metadata_offset"]  # the middle of a batch
    rest = call.json("metadata", "--log", "--offset", middle, "--end-offset", middle + 2)
    assert [each["metadata_offset"] for each in rest] == [middle, middle + 1]
    assert call.json("dump-log", "--cluster-metadata", "--offset", middle, "--limit", 2) == rest
    changes = call.json("metadata", "--log", "--topic", topic, "--partition", 1)
    assert {each["partition"] for each in changes} == {1}


def test_image_is_the_records_that_rebuild_it(call, new_topic, cluster):
    topic = new_topic(partitions=2)

    of_topic = call.json("metadata", "--image", "--topic", topic)
    brokers = call.json("metadata", "--image", "--record-type", "BrokerRecord")

    assert [each["record_type"] for each in of_topic] == ["TopicRecord", *["PartitionRecord"] * 2]
    assert [each["broker_id"] for each in brokers] == sorted(cluster.image.brokers)


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
    assert "came back broker 4" in back


def test_round_of_replication_copies_and_says_whether_all_are_caught_up(call, new_topic, cluster):
    topic = new_topic(b"a", replica_assignment={0: [1, 2]})
    cluster.append(topic, records(b"b", b"c"), acks=1)

    report = call.json("replicate", "--topic", topic)

    assert (report["copied_records"], report["is_caught_up"]) == (2, True)
    assert report["not_looked_at"] == 0
    assert report["once_round_ms"] == 600_000
    sweep = call.json("replicate", "--topic", topic, "--sweep")
    assert (sweep["partition_count"], sweep["not_looked_at"]) == (1, 0)
    assert call("replicate", "--topic", topic, "--sweep").endswith("all are caught up.\n")


def test_a_round_says_what_it_has_not_inspected(call, new_topic, cluster, disks):
    topic = new_topic(b"a", replica_assignment={0: [1, 4]})
    disks.take_away(4)
    try:
        told = call("replicate", "--topic", topic, "--sweep", code=1)
    finally:
        disks.give_back(4)
        cluster.run_controller()
        cluster.replicate(is_sweep=True)

    assert "not all are caught up.\n1 partition could not be inspected, or was not within" in told


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


def test_check_tells_of_each_replica_that_it_has_read(new_topic, disks):
    new_topic(b"a")
    made = sum(
        partition.is_created(each)
        for _, partition in disks.cluster.image.partitions()
        for each in partition.replicas
    )
    read = []

    check_cluster(disks.metadata_root, deep=False, after_replica=lambda: read.append(1))

    assert len(read) == made > 0


def test_whole_cluster_is_checked(call):
    report = call.json("fsck", "--quick")

    assert report["is_clean"]
    assert not report["is_deep"]
    assert call("fsck").endswith("Nothing was found.\n")


def test_fsck_says_in_words_what_orphans_are(call, new_topic, disks):
    topic = new_topic(b"a", partitions=1, replica_assignment={0: [1]})
    orphan = disks.folder(1, topic) / "left-behind.parquet"
    orphan.write_bytes(b"")

    shown = call("fsck")

    orphan.unlink()
    assert "of which" in shown
    assert str(orphan) in shown
    assert "An orphan is a file or a table that no log names" in shown
    assert "It holds no record of the cluster" in shown


def test_logs_of_a_topic_are_described_with_what_is_due(call, new_topic):
    topic = new_topic(
        *(b"a", b"b"),
        replica_assignment={0: [1, 2]},
        configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0},
    )

    [logs] = call.json("topics", "--describe", "--logs", "--topic", topic)
    shown = call("topics", "--describe", "--logs", "--topic", topic)

    first, second = logs["replicas"]
    assert (first["broker"], first["plain_segments"], first["log_end_offset"]) == (1, 2, 2)
    assert [each["kind"] for each in first["due"]] == ["compaction"]
    assert second["due"] == []
    assert logs["compacted"] is None
    assert f"{topic}-0 on broker 1: due since " in shown
    assert shown.splitlines()[1].split()[:4] == ["-", "0", "1", "0"]

    decided = call.json("maintain", "--topic", topic, "--dry-run")
    assert [row["kind"] for row in decided["rows"]] == ["compaction"]
    call("maintain", "--topic", topic)

    described = call("topics", "--describe", "--logs", "--topic", topic)
    assert described.endswith("Nothing is due.\n")
    assert f"{topic}-0 since " in described
    assert "compacted below 2" in described
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

    assert (result.code, "nothing was due there" in result.out) == (1, True)
    assert "not looked at: orders-0 on broker 1: the broker is fenced" in result.complaint
    assert answer["rows"] == []
    assert "the root of broker 1: the broker is fenced" in answer["not_looked_at"]


def test_history_of_upkeep_is_shown_also_as_of_a_moment(call, new_topic, cluster):
    topic = new_topic(b"a", b"b", replica_assignment={0: [1]})
    before = cluster.image.offset
    assert "No upkeep" in call("maintain", "--history", "--topic", topic)
    cluster.delete_records({(topic, 0): 1})

    shown = call("maintain", "--history", "--topic", topic)
    answer = call.json("maintain", "--history", "--topic", topic)

    assert "delete-records: " in shown
    assert "log start: 1 file" in shown
    assert [each["kind"] for each in answer["events"]] == ["delete-records", "log start"]
    assert (answer["unread"], answer["incomplete"]) == ([], [])
    past = call.json("maintain", "--history", "--topic", topic, "--as-of", before)
    assert past["events"] == []


def test_options_that_do_not_go_together_are_refused(call, new_topic, cluster):
    topic = new_topic(b"a")

    assert "--history" in call.refused("maintain", "--as-of", "1")
    assert "--dry-run" in call.refused("maintain", "--history", "--dry-run")
    offset = cluster.image.offset
    given = ("topics", "--describe", "--logs", "--topic", topic, "--as-of", offset)
    assert "maintain --history" in call.refused(*given)
