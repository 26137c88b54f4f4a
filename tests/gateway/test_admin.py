"""Kafka's admin clients against a gateway: topics, settings, records and groups."""

import confluent_kafka
import kafka
import pytest
from confluent_kafka import ElectionType
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


def test_what_is_only_to_be_checked_is_refused_or_not_done(cluster, admin, topic):
    of_topic = (ResourceType.TOPIC, topic)

    def checked(name, value):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(*of_topic, incremental_configs=[entry])
        found = admin.incremental_alter_configs([resource], validate_only=True)
        return results(found).popitem()[1]

    before = cluster.image.offset
    given = [NewTopic("checked", 1, 1), NewTopic("too-many", 1, 9), NewTopic(topic, 1, 1)]
    assert results(admin.create_topics(given, validate_only=True)) == {
        "checked": None,
        "too-many": "INVALID_REPLICATION_FACTOR",
        topic: "TOPIC_ALREADY_EXISTS",
    }
    for count, code in ((4, None), (1, "INVALID_PARTITIONS")):
        futures = admin.create_partitions([NewPartitions(topic, count)], validate_only=True)
        assert results(futures) == {topic: code}
    assert checked("max.message.bytes", "5000") is None
    assert checked("no.such", "1") == "INVALID_CONFIG"
    assert cluster.image.offset == before


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


@pytest.fixture
def pythons(address):
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    yield admin
    admin.close()


def test_kafka_pythons_admin_client_makes_lists_and_deletes_topics(cluster, pythons):
    pythons.create_topics([PythonsNewTopic("by-python", 2, 3)])

    assert len(cluster.describe_topic("by-python").partitions) == 2
    assert "by-python" in pythons.list_topics()
    pythons.delete_topics(["by-python"])
    assert "by-python" not in cluster.image.topic_ids


def test_replicas_are_reassigned_and_a_move_is_listed_and_cancelled(cluster, pythons, topic):
    cluster.append(topic, [{"value": "a", "partition": 0}])
    first, second, third = cluster.image.topic(topic).partitions[0].replicas
    place, other = kafka.TopicPartition(topic, 0), kafka.TopicPartition(topic, 1)
    nowhere = kafka.TopicPartition(topic, 7)

    def moved(targets):
        found = pythons.alter_partition_reassignments(targets)
        return {each: error and error.__name__ for each, error in found.items()}

    assert moved({place: [first, second]}) == {place: None}
    while cluster.reassignments():
        cluster.run_controller()
    assert cluster.image.topic(topic).partitions[0].replicas == (first, second)

    # One that is refused does not keep the others from moving.
    assert moved({place: [first, second, third], other: [GATEWAY_ID], nowhere: [first]}) == {
        place: None,
        other: "InvalidReplicationAssignmentError",
        nowhere: "UnknownTopicOrPartitionError",
    }
    move = {
        "replicas": [first, second, third],
        "adding_replicas": [third],
        "removing_replicas": [],
    }
    assert pythons.list_partition_reassignments() == {place: move}
    assert pythons.list_partition_reassignments([other]) == {}
    assert moved({place: None, other: None}) == {
        place: None,
        other: "NoReassignmentInProgressError",
    }
    assert cluster.reassignments() == []


def test_leaders_are_elected_where_they_do_not_lead(cluster, admin, topic):
    cluster.append(topic, [{"value": "a", "partition": 0}])
    replicas = cluster.image.topic(topic).partitions[0].replicas
    cluster.reassign({(topic, 0): replicas[::-1]})

    def elected(kind, numbers):
        given = numbers and [confluent_kafka.TopicPartition(topic, each) for each in numbers]
        found = admin.elect_leaders(kind, given).result(20)
        return {each.partition: error and error.name() for each, error in found.items()}

    assert cluster.image.topic(topic).partitions[0].leader == replicas[0]
    assert elected(ElectionType.PREFERRED, None) == {0: None}
    assert cluster.image.topic(topic).partitions[0].leader == replicas[-1]
    assert elected(ElectionType.PREFERRED, None) == {}
    assert elected(ElectionType.PREFERRED, [0, 1, 7]) == {
        0: "ELECTION_NOT_NEEDED",
        1: "ELECTION_NOT_NEEDED",
        7: "UNKNOWN_TOPIC_OR_PART",
    }
    assert elected(ElectionType.UNCLEAN, [0]) == {0: "ELECTION_NOT_NEEDED"}


def test_the_roots_of_all_brokers_are_the_log_dirs_of_a_gateway(cluster, pythons, topic):
    cluster.append(topic, [{"value": "a", "partition": 0}])

    [described] = pythons.describe_log_dirs({topic: [0]})

    found = {each["log_dir"]: each["topics"] for each in described["log_dirs"]}
    assert set(found) == {each.root for each in cluster.image.brokers.values()}
    sizes = [part for [each] in found.values() for part in each["partitions"]]
    assert {each["partition_index"] for each in sizes} == {0}
    assert min(each["partition_size"] for each in sizes) > 0


def test_producers_and_the_quorum_are_described(cluster, address, pythons, topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for value in "abc":
        producer.produce(topic, value, partition=0)
    producer.flush(20)
    cluster.append(topic, [{"value": "of no client", "partition": 1}])
    places = [kafka.TopicPartition(topic, n) for n in (0, 1)]

    found = pythons.describe_producers(places)
    quorum = pythons.describe_metadata_quorum()

    [state] = found[places[0]].active_producers
    assert (state.producer_epoch, state.last_sequence) == (0, 2)
    assert found[places[1]].active_producers == []
    [partition] = quorum["topics"][0]["partitions"]
    known = cluster.describe_quorum()
    assert partition["leader_epoch"] == known.epoch
    assert [each["replica_id"] for each in partition["current_voters"]] == [
        each.voter.key.node_id for each in known.voters
    ]


def test_offsets_of_a_group_without_members_are_deleted_and_reset(cluster, pythons, topic):
    places = [kafka.TopicPartition(topic, n) for n in (0, 1)]
    cluster.append(topic, [{"value": "a", "partition": n} for n in (0, 1)])
    cluster.alter_group_offsets(topic, {(topic, 0): 1, (topic, 1): 1})

    found = pythons.delete_group_offsets(topic, [places[1], kafka.TopicPartition(topic, 7)])

    assert [each.__name__ for each in found.values()] == ["NoError", "UnknownTopicOrPartitionError"]
    assert [each.offset for each in pythons.list_group_offsets(topic)[topic].values()] == [1]
    pythons.alter_group_offsets(topic, {places[0]: kafka.OffsetAndMetadata(0, "", -1)})
    assert pythons.list_group_offsets(topic)[topic][places[0]].offset == 0
    with pytest.raises(kafka.errors.GroupIdNotFoundError):
        pythons.delete_group_offsets("nobody", places)
    with cluster.consumer(topic, group=topic) as member:
        member.poll(2000)
        with pytest.raises(kafka.errors.NonEmptyGroupError):
            pythons.delete_group_offsets(topic, places)
