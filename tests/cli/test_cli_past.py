"""A cluster is created and shown from the command line, and shown as it was."""

import pytest

from kafka_on_spark import Cluster
from tests.cluster.folders import quick_folder


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder


def broker_options(folder, *texts):
    return [word for text in texts for word in ("--broker", text.format(folder=folder))]


def test_a_cluster_is_created_with_racks_and_settings_and_described(call, folder):
    meta = str(folder / "meta")
    given = broker_options(folder, "1={folder}/a,north", "2={folder}/b,south", "3={folder}/c,south")

    made = call.json(
        "cluster", "--create", "--metadata-root", meta, *given, "--config", "min.insync.replicas=2"
    )
    shown = call.json("cluster", "--describe", "--metadata-root", meta)

    assert made == shown
    assert shown["configs"] == {"min.insync.replicas": "2"}
    assert [(each["broker"], each["rack"], each["state"]) for each in shown["brokers"]] == [
        (1, "north", "active"),
        (2, "south", "active"),
        (3, "south", "active"),
    ]
    with Cluster.open(meta) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=3)
        cluster.append("orders", [("key", "value")])
        assert cluster.read("orders").num_rows == 1
    again = call.refused("cluster", "--create", "--metadata-root", meta, *given)
    assert "there is a cluster" in again or "already" in again


@pytest.mark.parametrize(
    "text", ["{folder}/a", "one={folder}/a", "1=", "1={folder}/a,", "=x", "1=,north"]
)
def test_a_broker_that_is_no_id_and_root_is_refused_and_nothing_is_made(call, folder, text):
    meta = folder / "meta"
    said = call.refused(
        "cluster", "--create", "--metadata-root", str(meta), *broker_options(folder, text)
    )

    assert "give ID=ROOT or ID=ROOT,RACK" in said
    assert not meta.exists()


def test_topics_brokers_offsets_and_the_controller_are_shown_as_they_were(call, cluster, new_topic):
    url = ("--cluster", cluster.root)
    topic = new_topic(b"a")
    before = cluster.image
    cluster.append(topic, [("key", "later")])
    later = new_topic()
    past = ("--as-of", str(before.offset))

    assert later not in call.json("topics", "--list", *url, *past)
    assert later in str(call.json("topics", "--list", *url))
    [then] = call.json("get-offsets", "--topic", topic, *url, *past)
    [now] = call.json("get-offsets", "--topic", topic, *url)
    assert (then["high_watermark"], now["high_watermark"]) == (1, 2)
    assert call.json("controller", "--describe", *url, *past)["metadata_offset"] == before.offset
    assert len(call.json("brokers", "--list", *url, *past)) == 4


def test_settings_moves_and_the_metadata_log_are_shown_as_they_were(call, cluster, new_topic):
    topic = new_topic(b"a", replica_assignment={0: [1, 2]}, configs={"retention.ms": 5})
    cluster.reassign({(topic, 0): [1, 3]})
    before = cluster.image
    past = ("--as-of", before.offset)
    cluster.alter_topic_configs(topic, {"retention.ms": 6})
    cluster.cancel_reassignment([(topic, 0)])

    [then] = call.json("configs", "--describe", "--topic", topic, *past)
    [now] = call.json("configs", "--describe", "--topic", topic)
    assert (then["value"], now["value"]) == ("5", "6")
    [move] = call.json("reassign-partitions", "--list", *past)
    assert (move["topic"], move["adding_replicas"], move["bytes_to_copy"]) == (topic, [3], None)
    assert call.json("reassign-partitions", "--list") == []
    of_topic = ("--topic", topic, "--record-type", "ConfigRecord")
    [record] = call.json("metadata", "--image", *of_topic, *past)
    assert record["config_value"] == "5"
    offsets = [row["metadata_offset"] for row in call.json("metadata", "--log", *past)]
    assert offsets == list(range(before.offset))
    assert len(call.json("metadata", "--log")) > before.offset


def test_what_a_controller_would_decide_is_shown_and_nothing_is_committed(call, disks, new_topic):
    topic = new_topic(b"a", replica_assignment={0: [4, 1, 2]})
    before = disks.cluster.image.offset
    disks.take_away(4)
    try:
        shown = call.json("controller", "--run", "--dry-run")
    finally:
        disks.give_back(4)

    assert shown["dry_run"] is True
    kinds = [record["record_type"] for record in shown["records"]]
    assert kinds[0] == "BrokerChangeRecord"
    assert "ControllerRecord" not in kinds
    [moved] = [each for each in shown["records"] if each.get("topic") == topic]
    assert moved["leader"] == 1
    assert "probe failed" in moved["cause"]
    assert disks.cluster.image.offset == before
    assert disks.cluster.image.brokers[4].is_online
