"""What is stored is shown: batches and records, files, replicas that differ, the metadata log."""

from datetime import UTC, datetime

from tests.cluster.disks import records

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


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
    assert call("fsck", code=1).endswith("1 findings.\n")
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


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
    assert {(each["offset_lag"], each["is_in_sync"], each["is_future"]) for each in rows} == {
        (0, True, False)
    }
    assert {each["broker"] for each in call.json("log-dirs", "--broker-list", "3,1")} == {1, 3}
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
    changes = call.json("metadata", "--log", "--topic", topic, "--partition", 1)
    assert {each["partition"] for each in changes} == {1}


def test_image_is_the_records_that_rebuild_it(call, new_topic, cluster):
    topic = new_topic(partitions=2)

    of_topic = call.json("metadata", "--image", "--topic", topic)
    brokers = call.json("metadata", "--image", "--record-type", "BrokerRecord")

    assert [each["record_type"] for each in of_topic] == ["TopicRecord", *["PartitionRecord"] * 2]
    assert [each["broker_id"] for each in brokers] == sorted(cluster.image.brokers)


def test_partition_whose_every_replica_is_lost_is_no_sound_one_in_any_answer(
    call, new_topic, cluster
):
    topic = new_topic(b"a", replica_assignment={0: [1]})
    cluster.lose_replica(topic, 0, 1)
    try:
        compared = call.json("replica-verification", "--topic", topic, code=1)
        [row] = call.json("log-dirs", "--topic", topic)
        of_one = call.refused("dump-log", "--topic", topic, "--partition", 0, "--verify")

        assert call("dump-log", "--topic", topic, "--verify", code=2) == ""
    finally:
        cluster.delete_topic(topic)

    assert compared["partitions"][0]["differences"]
    assert (row["size_bytes"], row["is_in_sync"]) == (None, True)
    assert "the replica is lost" in row["error"]
    assert "is lost: name another one by --broker, if there is one" in of_one
