"""Changes that can't be made to topics, partitions, replicas and settings: Kafka's error, one
sentence, and nothing half done; whether it is decided here or by another controller."""

import pytest

from kafka_on_spark.base.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    NoReassignmentInProgressError,
    PolicyViolationError,
    ReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import INTERNAL_TOPICS
from tests.bad_input.refusals import refused as refused_by
from tests.cluster.disks import new_disks

ONE = ("orders", 0)


@pytest.fixture(scope="module")
def harmed():
    """A cluster of five brokers: 4 is fenced and 5 drains; `orders`-1 moves to broker 3."""
    with new_disks(5) as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment={0: [1, 2], 1: [1, 2], 2: [2, 3]})
        cluster.append("orders", [(b"key", b"value")] * 20)
        disks.take_down(4)
        cluster.drain_broker(5)
        cluster.reassign({("orders", 1): [3, 1]})
        yield disks


# fmt: off
CHANGES = [
    # Replica lists.
    pytest.param(lambda c: c.create_topic("new", replica_assignment={0: [4, 5]}),                  InvalidReplicaAssignmentError, ["fenced brokers only, [4, 5]", "at least one that is active"],  id="created on fenced and draining brokers only"),
    pytest.param(lambda c: c.create_topic("new", partitions=2, replica_assignment={0: [1]}),       InvalidRequestError,           ["an assignment of 1 partitions", "2 partitions", "or give the same"],        id="created of two minds"),
    pytest.param(lambda c: c.create_topic("new", replication_factor=2, replica_assignment={0: [1]}), InvalidRequestError,         ["with 1 replicas", "with 2 replicas", "or give the same"],          id="created of two minds on replicas"),
    pytest.param(lambda c: c.reassign({ONE: [1, 9]}),                                              InvalidReplicaAssignmentError, ["[1, 9]", "registered: [1, 2, 3, 4, 5]"],                         id="moved to an unknown broker"),
    pytest.param(lambda c: c.reassign({ONE: [3, 3]}),                                              InvalidReplicaAssignmentError, ["[3, 3]", "each once"],                                          id="moved to a broker twice"),
    pytest.param(lambda c: c.reassign({ONE: []}),                                                  InvalidReplicaAssignmentError, ["[]", "at least one"],                                           id="moved nowhere"),
    pytest.param(lambda c: c.reassign({ONE: [1, 4]}),                                              InvalidReplicaAssignmentError, ["4 is fenced", "bring them back first"],                         id="moved to a fenced broker"),
    pytest.param(lambda c: c.reassign({ONE: [1, 5]}),                                              InvalidReplicaAssignmentError, ["5 is draining", "bring them back first"],                       id="moved to a draining broker"),
    pytest.param(lambda c: c.reassign({ONE: "13"}),                                                InvalidReplicaAssignmentError, ["'13'", "a list of broker ids"],                                 id="moved to a text"),
    pytest.param(lambda c: c.reassign({ONE: [1, 3], ("orders", 7): [1]}),                          UnknownTopicOrPartitionError,  ["'orders'", "it has 0 to 2"],                                    id="one good move, one of no partition"),
    pytest.param(lambda c: c.reassign({ONE: [1, 3], ("orders", 2): [9]}),                          InvalidReplicaAssignmentError, ["orders-2", "[9]"],                                              id="one good move, one bad"),
    # Two at once.
    pytest.param(lambda c: c.reassign({("orders", 1): [2, 3]}),                                    ReassignmentInProgressError,   ["orders-1 is being reassigned to [3, 1]", "cancel it first"],     id="moved while it moves"),
    pytest.param(lambda c: c.cancel_reassignment([ONE]),                                           NoReassignmentInProgressError, ["orders-0", "nothing to cancel"],                                id="cancelled though nothing moves"),
    pytest.param(lambda c: c.cancel_reassignment([("orders", 1), ONE]),                            NoReassignmentInProgressError, ["orders-0"],                                                     id="one to cancel, one not"),
    pytest.param(lambda c: c.reassign({ONE: [1, 3]}, throttle_bytes_per_s=0),                      InvalidRequestError,           ["throttled to 0", "at least 1"],                                 id="moved at no speed"),
    # Counts that go down.
    pytest.param(lambda c: c.add_partitions("orders", to=2),                                       InvalidPartitionsError,        ["has 3 partitions", "can't be given 2", "remove_partitions"],    id="fewer partitions without saying how"),
    pytest.param(lambda c: c.remove_partitions("orders", to=1),                                    PolicyViolationError,          ["records", "dropped"],                                           id="partitions with records"),
    pytest.param(lambda c: c.remove_partitions("orders", to=0, records="drop"),                    InvalidPartitionsError,        ["can't be left 0", "at least 1"],                                id="no partition left"),
    pytest.param(lambda c: c.remove_partitions("orders", to=1, records="burn"),                    InvalidRequestError,           ["'burn'", "'refuse'", "'drop'"],                                 id="records treated otherwise"),
    # What does not exist.
    pytest.param(lambda c: c.add_partitions("order", to=4),                                        UnknownTopicOrPartitionError,  ["'order'"],                                                      id="no topic to add to"),
    pytest.param(lambda c: c.delete_records({("order", 0): 1}),                                    UnknownTopicOrPartitionError,  ["'order'"],                                                      id="no topic to delete records of"),
    pytest.param(lambda c: c.drain_broker(9),                                                      BrokerIdNotRegisteredError,    ["no broker 9", "[1, 2, 3, 4, 5]"],                               id="no broker to drain"),
    pytest.param(lambda c: c.unregister_broker(1),                                                 InvalidRequestError,           ["broker 1 has replicas of 2 partitions", "reassign them"],       id="a broker that is not empty"),
    pytest.param(lambda c: c.resume_broker(4), InvalidRequestError, ["broker 4 is fenced"], id="a fenced broker to resume"),
    pytest.param(lambda c: c.drain_broker(4),                                                      InvalidRequestError,           ["broker 4 is fenced"],                                           id="a fenced broker to drain"),
    # Settings out of range.
    pytest.param(lambda c: c.alter_topic_configs("orders", {"retention.ms": -2}),                  InvalidConfigError,            ["'retention.ms'", "'-2'", "from -1"],                            id="a setting below its least"),
    pytest.param(lambda c: c.alter_topic_configs("orders", {"retention.ms": 5, "segment.ms": 0}),  InvalidConfigError,            ["'segment.ms'", "from 1"],                                       id="one good setting, one bad"),
    pytest.param(lambda c: c.alter_cluster_configs({"num.partitions": 0}),                         InvalidConfigError,            ["'num.partitions'", "from 1"],                                   id="the cluster's out of range"),
    pytest.param(lambda c: c.create_topic("new", configs={"retention.ms": object}),                InvalidRequestError,           ["can't be given"],                                               id="a setting that is no value"),
    # Brokers.
    pytest.param(lambda c: c.register_broker(1, c.image.brokers[1].root),                          DuplicateBrokerRegistrationError, ["broker 1", "another id"],                                    id="a broker twice"),
]
# fmt: on


def test_the_cluster_is_as_the_cases_take_it(harmed):
    states = {number: each.state.value for number, each in harmed.cluster.image.brokers.items()}
    assert states == {1: "active", 2: "active", 3: "active", 4: "fenced", 5: "draining"}
    assert [each.name for each in harmed.cluster.reassignments()] == [("orders", 1)]


@pytest.mark.parametrize("change, error, words", CHANGES)
def test_a_change_that_cannot_be_made(harmed, change, error, words):
    with refused_by(harmed.cluster, harmed.base, error, *words):
        change(harmed.cluster)


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_an_internal_topic(cluster, refused, name):
    with refused(InvalidTopicError, f"'{name}'", "internal to Kafka", "choose another name"):
        cluster.create_topic(name)
    with refused(UnknownTopicOrPartitionError, f"'{name}'"):
        cluster.delete_topic(name)
    with refused(UnknownTopicOrPartitionError, f"'{name}'"):
        cluster.append(name, [(b"key", b"value")])
