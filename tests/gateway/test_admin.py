"""Kafka's admin clients against a gateway: topics, settings, records and groups."""

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import NewTopic as PythonsNewTopic

from kafka_on_spark.base.errors import UnknownTopicOrPartitionError
from kafka_on_spark.gateway.gateways import GATEWAY_ID


@pytest.fixture
def address(gateway):
    return f"{gateway.host}:{gateway.port}"


@pytest.fixture
def admin(address):
    return AdminClient({"bootstrap.servers": address})


def results(futures):
    """Return what became of each: its result, or Kafka's code."""
    found = {}
    for name, future in futures.items():
        try:
            found[name] = future.result(20)
        except confluent_kafka.KafkaException as error:
            found[name] = error.args[0].name()
    return found


def test_topics_are_made_grown_and_deleted(cluster, admin):
    wanted = [
        NewTopic("made", 3, 2, config={"retention.ms": "1000"}),
        NewTopic("assigned", 1, replica_assignment=[[2, 3]]),
        NewTopic("no name/", 1, 1),
        NewTopic("too-many", 1, 9),
    ]

    assert results(admin.create_topics(wanted)) == {
        "made": None,
        "assigned": None,
        "no name/": "TOPIC_EXCEPTION",
        "too-many": "INVALID_REPLICATION_FACTOR",
    }
    made = cluster.describe_topic("made")
    assert [len(each.replicas) for each in made.partitions] == [2, 2, 2]
    assert cluster.image.topic("assigned").partitions[0].replicas == (2, 3)
    assert results(admin.create_topics(wanted[:1])) == {"made": "TOPIC_ALREADY_EXISTS"}

    assert results(admin.create_partitions([NewPartitions("made", 5)])) == {"made": None}
    assert len(cluster.describe_topic("made").partitions) == 5
    assert results(admin.create_partitions([NewPartitions("made", 2)])) == {
        "made": "INVALID_PARTITIONS"
    }

    assert results(admin.delete_topics(["made", "assigned", "nowhere"])) == {
        "made": None,
        "assigned": None,
        "nowhere": "UNKNOWN_TOPIC_OR_PART",
    }
    with pytest.raises(UnknownTopicOrPartitionError):
        cluster.describe_topic("made")


def test_what_is_only_to_be_checked_is_refused_and_not_done(cluster, admin):
    futures = admin.create_topics([NewTopic("checked", 1, 1)], validate_only=True)

    assert results(futures) == {"checked": "INVALID_REQUEST"}
    assert "checked" not in cluster.image.topic_ids


def test_settings_are_shown_set_and_taken_back(cluster, admin, topic):
    def shown(kind, name):
        [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
        return {each.name: (each.value, each.is_default) for each in future.result(20).values()}

    def alter(kind, name, setting, operation, value=None):
        entry = ConfigEntry(setting, value, incremental_operation=operation)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        [found] = results(admin.incremental_alter_configs([resource])).values()
        return found

    of_topic = ResourceType.TOPIC, topic
    assert shown(*of_topic)["max.message.bytes"][1]
    assert alter(*of_topic, "max.message.bytes", AlterConfigOpType.SET, "5000") is None
    assert shown(*of_topic)["max.message.bytes"] == ("5000", False)
    assert (
        cluster.image.settings(cluster.image.topic_ids[topic]).text("max.message.bytes") == "5000"
    )
    assert alter(*of_topic, "max.message.bytes", AlterConfigOpType.DELETE) is None
    assert shown(*of_topic)["max.message.bytes"][1]
    assert alter(*of_topic, "no.such", AlterConfigOpType.SET, "1") == "INVALID_CONFIG"
    assert alter(*of_topic, "cleanup.policy", AlterConfigOpType.APPEND, "compact") == (
        "INVALID_REQUEST"
    )
    assert "controller.lease.ms" in shown(ResourceType.BROKER, str(GATEWAY_ID))
    assert "controller.lease.ms" not in shown(*of_topic)


def test_records_are_deleted_below_an_offset(cluster, admin, topic):
    cluster.append(topic, [{"value": "a", "partition": 0}] * 5)
    places = [
        confluent_kafka.TopicPartition(topic, 0, 3),
        confluent_kafka.TopicPartition(topic, 1, 9),
    ]

    found = results(admin.delete_records(places))

    assert {each.partition: result for each, result in found.items() if each.partition == 1} == {
        1: "OFFSET_OUT_OF_RANGE"
    }
    assert cluster.offsets(topic)[0].log_start_offset == 3


def test_a_cluster_and_its_groups_are_described(cluster, gateway, admin, topic):
    group = f"group of {topic}"
    cluster.append(topic, [{"value": "a", "partition": 0}])
    with cluster.consumer(
        topic, group=group, auto_offset_reset="earliest", client_id="c"
    ) as member:
        member.poll(2000)
        described = admin.describe_consumer_groups([group])[group].result(20)
        listed = admin.list_consumer_groups().result().valid
        assert results(admin.delete_consumer_groups([group])) == {group: "NON_EMPTY_GROUP"}

    [one] = described.members
    assert (one.client_id, described.state.name) == ("c", "STABLE")
    assert {(each.topic, each.partition) for each in one.assignment.topic_partitions} == {
        (topic, 0),
        (topic, 1),
    }
    assert group in {each.group_id for each in listed}
    assert results(admin.delete_consumer_groups([group])) == {group: None}
    assert group not in cluster.list_groups()
    nodes = admin.describe_cluster().result(20).nodes
    assert [(each.id, each.port) for each in nodes] == [(GATEWAY_ID, gateway.port)]


def test_kafka_pythons_admin_client(cluster, address):
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)

    admin.create_topics([PythonsNewTopic("by-python", 2, 3)])

    assert len(cluster.describe_topic("by-python").partitions) == 2
    assert "by-python" in admin.list_topics()
    admin.delete_topics(["by-python"])
    assert "by-python" not in cluster.image.topic_ids
    admin.close()
