"""Arguments of another kind than is wanted: a sentence says so, and not Python."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    InvalidConfigError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidRootError,
    InvalidTopicError,
    UnknownTopicOrPartitionError,
)

MAPPING = "give a mapping (a dict) of"
RECORDS = [("key", "value")]

# fmt: off
CALLS = [
    # What is given by name or number.
    pytest.param(lambda cluster: cluster.create_topic("new", configs="x"),                        InvalidConfigError,            ["configs can't be 'x'", MAPPING, "settings"],         id="a topic's settings in a text"),
    pytest.param(lambda cluster: cluster.alter_topic_configs("orders", "retention.ms"),           InvalidConfigError,            ["configs can't be 'retention.ms'", MAPPING],          id="settings to alter in a text"),
    pytest.param(lambda cluster: cluster.replicate(configs="x"),                                  InvalidConfigError,            ["configs can't be 'x'", MAPPING],                     id="a round's settings in a text"),
    pytest.param(lambda cluster: cluster.create_topic("new", replica_assignment=[[1, 2]]),        InvalidReplicaAssignmentError, ["replica_assignment can't be [[1, 2]]", MAPPING],     id="an assignment in a list"),
    pytest.param(lambda cluster: cluster.create_topic("new", replica_assignment={0: 1}),          InvalidReplicaAssignmentError, ["the brokers of partition 0 can't be 1", "a list"],   id="a broker where several are wanted"),
    pytest.param(lambda cluster: cluster.create_topic("new", replica_assignment={0: [[1]]}),      InvalidReplicaAssignmentError, ["a broker of partition 0 can't be [1]"],              id="a list for a broker"),
    pytest.param(lambda cluster: cluster.create_topic("new", replica_assignment={0: [1], "1": [2]}), InvalidReplicaAssignmentError, ["a partition of replica_assignment can't be '1'"], id="a partition in digits"),
    pytest.param(lambda cluster: cluster.append("orders", RECORDS, expected_offsets=0),           InvalidRequestError,           ["expected_offsets can't be 0", MAPPING],              id="one expected offset"),
    pytest.param(lambda cluster: cluster.append("orders", RECORDS, expected_offsets={"0": 0}),    InvalidRequestError,           ["a partition of expected_offsets can't be '0'"],      id="an expected offset of digits"),
    pytest.param(lambda cluster: cluster.read("orders", start=3),                                 InvalidRequestError,           ["start can't be 3", MAPPING],                         id="one offset to start at"),
    pytest.param(lambda cluster: cluster.read("orders", start={"0": 0}),                          InvalidRequestError,           ["a partition can't be '0'", "a whole number"],        id="a partition to read in digits"),
    # Several, of which one is no list.
    pytest.param(lambda cluster: cluster.replicate(5),                                            InvalidRequestError,           ["topics can't be 5", "give a list of names"],         id="a number for names"),
    pytest.param(lambda cluster: cluster.replicate([["orders"]]),                                 InvalidTopicError,             ["a topic's name can't be ['orders']", "a text"],      id="a list for a name"),
    pytest.param(lambda cluster: cluster.elect_leaders("preferred", "orders"),                    InvalidRequestError,           ["partitions can't be 'orders'", "('orders', 0)"],     id="a name for partitions"),
    pytest.param(lambda cluster: cluster.elect_leaders("preferred", ["orders"]),                  InvalidRequestError,           ["'orders' names no partition", "('orders', 0)"],   id="a name for a partition"),
    pytest.param(lambda cluster: cluster.elect_leaders(["preferred"]),                            InvalidRequestError,           ["can't hold a ['preferred'] election"],               id="a list for a kind of election"),
    # One name, one number.
    pytest.param(lambda cluster: cluster.offsets(["orders"]),                                     InvalidTopicError,             ["a topic's name can't be ['orders']", "a text"],      id="offsets of a list"),
    pytest.param(lambda cluster: cluster.describe_topic(None),                                    InvalidTopicError,             ["a topic's name can't be None"],                      id="nothing to describe"),
    pytest.param(lambda cluster: cluster.delete_topic(5),                                         InvalidTopicError,             ["a topic's name can't be 5"],                         id="a number to delete"),
    pytest.param(lambda cluster: cluster.history("orders", "0"),                                  InvalidRequestError,           ["a partition can't be '0'", "a whole number"],        id="history of digits"),
    pytest.param(lambda cluster: cluster.run_controller("x"),                                     InvalidRequestError,           ["seconds can't be 'x'", "give a number from 0 on"],   id="a text for seconds"),
    pytest.param(lambda cluster: cluster.run_controller(float("nan")),                            InvalidRequestError,           ["seconds can't be nan", "give a number from 0 on"],   id="seconds that are no number"),
]
# fmt: on


@pytest.mark.parametrize("call, error, words", CALLS)
def test_an_argument_of_another_kind(cluster, refused, call, error, words):
    with refused(error, *words):
        call(cluster)


# fmt: off
CLUSTERS = [
    pytest.param({"brokers": ["new"]},               InvalidRequestError, ["brokers can't be ['new']", MAPPING, "ids and roots"],     id="brokers in a list"),
    pytest.param({"racks": "a"},                     InvalidRequestError, ["racks can't be 'a'", MAPPING],                            id="racks in a text"),
    pytest.param({"racks": {"1": "a", 9: "b"}},      InvalidRequestError, ["which is not in brokers"],                                id="racks of a word and a number"),
    pytest.param({"configs": "x"},                   InvalidConfigError,  ["configs can't be 'x'", MAPPING],                          id="settings in a text"),
    pytest.param({"storage_options": "canary-key"},  InvalidRequestError, ["storage_options can't be a str", MAPPING],                id="storage options in a text"),
    pytest.param({"spark": "local"},                 InvalidRequestError, ["spark can't be 'local'", "give a SparkSession"],          id="a master for a session"),
    pytest.param({"metadata_root": 5},               InvalidRootError,    ["5 is not a root"],                                        id="a number for the metadata root"),
]
# fmt: on


@pytest.mark.parametrize("arguments, error, words", CLUSTERS)
def test_a_cluster_is_not_created_with_arguments_of_another_kind(
    disks, refused, monkeypatch, arguments, error, words
):
    monkeypatch.chdir(disks.base)

    with refused(error, *words) as caught:
        Cluster.create(**{"metadata_root": "new-meta", "brokers": {1: "new"}, **arguments})

    assert "canary" not in str(caught.value)
    assert not (disks.base / "new").exists()
    assert not (disks.base / "new-meta").exists()


# fmt: off
OPENINGS = [
    pytest.param({"metadata_root": ["meta", 5]},  InvalidRootError,    ["5 is not a root", "give a folder or a URL"], id="a number among roots"),
    pytest.param({"spark": "local[2]"},        InvalidRequestError, ["spark can't be 'local[2]'", "a SparkSession"],   id="a master for a session"),
    pytest.param({"storage_options": "x"},     InvalidRequestError, ["storage_options can't be a str", MAPPING],       id="storage options in a text"),
]
# fmt: on


@pytest.mark.parametrize("arguments, error, words", OPENINGS)
def test_a_cluster_is_not_opened_with_arguments_of_another_kind(
    disks, refused, arguments, error, words
):
    with refused(error, *words):
        Cluster.open(**{"metadata_root": disks.metadata_root, **arguments})


def test_one_topic_is_taken_as_one_and_not_as_its_letters(cluster):
    whole = cluster.replicate(["orders"], is_sweep=True)

    assert cluster.replicate("orders", is_sweep=True).partition_count == whole.partition_count == 3
    with pytest.raises(UnknownTopicOrPartitionError, match="no topic 'order'"):
        cluster.replicate("order")


@pytest.mark.parametrize("partitions", [("orders", 0), [("orders", 0)], (("orders", 0),)])
def test_one_partition_is_taken_as_one(cluster, partitions):
    assert cluster.elect_leaders("preferred", partitions) == []
