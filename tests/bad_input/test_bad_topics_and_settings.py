"""Topics that can't be created or don't exist, and unknown settings."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)


@pytest.mark.parametrize("name", ["bills_of.may", "bills.of.may", "bills_of_may"])
def test_a_topic_name_that_only_dots_and_underscores_tell_from_anothers(cluster, refused, name):
    if "bills.of_may" not in cluster.image.topic_ids:
        cluster.create_topic("bills.of_may")

    with refused(
        InvalidTopicError, repr(name), "'bills.of_may'", "'.' and '_'", "choose another name"
    ):
        cluster.create_topic(name)


# fmt: off
TOPICS = [
    pytest.param({"name": "orders"},                                 TopicAlreadyExistsError,       ["'orders'", "choose another name"],                     id="there already"),
    pytest.param({"partitions": 0},                                  InvalidPartitionsError,        ["0 partitions", "from 1 to"],                           id="no partition"),
    pytest.param({"partitions": "3"},                                InvalidPartitionsError,        ["'3'", "give a whole number"],                          id="digits for a number"),
    pytest.param({"replication_factor": "two"},                      InvalidReplicationFactorError, ["'two'", "give a whole number"],                        id="a word for a number"),
    pytest.param({"replication_factor": 4},                          InvalidReplicationFactorError, ["factor 4", "brokers, 3", "register more brokers"],     id="more replicas than brokers"),
    pytest.param({"replication_factor": 0},                          InvalidReplicationFactorError, ["factor 0", "at least 1"],                              id="no replica"),
    pytest.param({"replica_assignment": {0: [1, 9]}},                InvalidReplicaAssignmentError, ["[1, 9]", "registered: [1, 2, 3]"],                     id="an unknown broker"),
    pytest.param({"replica_assignment": {0: [1, 1]}},                InvalidReplicaAssignmentError, ["[1, 1]", "once at most"],                              id="a broker twice"),
    pytest.param({"replica_assignment": {0: [1, 2], 1: [3]}},        InvalidReplicaAssignmentError, ["[1, 2] replicas", "the same number"],                  id="uneven"),
    pytest.param({"replica_assignment": {1: [1, 2]}},                InvalidReplicaAssignmentError, ["partitions [1]", "from 0 on"],                         id="a gap"),
    pytest.param({"configs": {"min.insync.replica": 2}},             InvalidConfigError,            ["'min.insync.replica'", "'min.insync.replicas'?"],      id="a setting that is spelled wrong"),
    pytest.param({"partitions": 1_000_001}, InvalidPartitionsError, ["1000001", "from 1 to"], id="too many partitions"),
    pytest.param({"replica_assignment": {0: []}}, InvalidReplicaAssignmentError, ["at least one"], id="a partition without replicas"),
    pytest.param({"configs": {"min.compaction.lag.ms": 2, "max.compaction.lag.ms": 1}}, InvalidConfigError, ["can't be 2"], id="settings that contradict"),
]
# fmt: on


@pytest.mark.parametrize("arguments, error, words", TOPICS)
def test_a_topic_that_cannot_be_created(cluster, refused, arguments, error, words):
    with refused(error, *words):
        cluster.create_topic(**{"name": "new", **arguments})


# fmt: off
CALLS = [
    pytest.param(lambda cluster: cluster.append("order", [("k", "v")]),                     id="append"),
    pytest.param(lambda cluster: cluster.read("order"),                                     id="read"),
    pytest.param(lambda cluster: cluster.delete_topic("order"),                             id="delete"),
    pytest.param(lambda cluster: cluster.alter_topic_configs("order", {}),                  id="alter"),
    pytest.param(lambda cluster: cluster.describe_topic("order"),                           id="describe"),
    pytest.param(lambda cluster: cluster.offsets("order"),                                  id="offsets"),
    pytest.param(lambda cluster: cluster.history("order"),                                  id="history"),
    pytest.param(lambda cluster: cluster.replicate(["order"]),                              id="replicate"),
]
PARTITIONS = [
    pytest.param(lambda cluster: cluster.read("orders", end={-1: 0}),                       id="end of a read"),
    pytest.param(lambda cluster: cluster.history("orders", 3),                              id="history"),
]
# fmt: on


@pytest.mark.parametrize("call", CALLS)
def test_a_topic_that_does_not_exist_is_not_created_by_a_use(cluster, refused, call):
    with refused(UnknownTopicOrPartitionError, "'order'"):
        call(cluster)


@pytest.mark.parametrize("call", PARTITIONS)
def test_a_partition_that_does_not_exist(cluster, refused, call):
    with refused(UnknownTopicOrPartitionError, "'orders'", "it has 0 to 2"):
        call(cluster)


@pytest.mark.parametrize("start", [-1, 10**6])
def test_a_read_from_where_nothing_is_committed(cluster, refused, start):
    with refused(OffsetOutOfRangeError, str(start), "log start 0", "high watermark"):
        cluster.read("orders", start={0: start})


# fmt: off
CLUSTERS = [
    pytest.param({"brokers": {}},                            InvalidRequestError, ["give at least one id and root"],                            id="no broker"),
    pytest.param({"brokers": {-1: "new"}},                   InvalidRequestError, ["broker id -1", "0 or more"],                                id="negative id"),
    pytest.param({"brokers": {"one": "new"}},                InvalidRequestError, ["a broker id can't be 'one'", "give a whole number"],         id="a word for an id"),
    pytest.param({"racks": {1: 3}},                          InvalidRequestError, ["the rack of broker 1 can't be 3", "give a text"],            id="a number for a rack"),
    pytest.param({"racks": {9: "a"}},                        InvalidRequestError, ["broker 9, which is not in brokers"],                        id="rack of nobody"),
]
# fmt: on


@pytest.mark.parametrize("arguments, error, words", CLUSTERS)
def test_a_cluster_that_cannot_be_created(disks, refused, monkeypatch, arguments, error, words):
    monkeypatch.chdir(disks.base)

    with refused(error, *words):
        Cluster.create("new-meta", **{"brokers": {1: "new"}, **arguments})

    assert not (disks.base / "new").exists()
    assert not (disks.base / "new-meta").exists()
