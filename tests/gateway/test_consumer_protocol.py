"""Groups by KIP-848's protocol: what each heartbeat is answered, and clients that come and go."""

import json
import subprocess
import sys
import uuid
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from kafka_on_spark.gateway import groups
from kafka_on_spark.gateway.gateway import Gateway, listening_at
from kafka_on_spark.gateway.gateways import Gateways
from kafka_on_spark.gateway.wire import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    LIST_GROUPS,
    OFFSET_FETCH,
)
from tests.cluster.serving.processes import wait_for
from tests.gateway.raw_client import RawClient, payload
from tests.gateway.test_groups import RawMember, Reader, append, by_consumer_protocol, texts

LEAVES, AWAY = -1, -2


@pytest.fixture(autouse=True)
def _targets_come_soon(monkeypatch):
    monkeypatch.setattr(groups, "SHARE_MS", 50)


@pytest.fixture
def group(topic):
    return f"group of {topic}"


class Member(RawMember):
    """A member that says what a test says."""

    def __init__(self, client, cluster, topic, group, *, instance_id=None):
        super().__init__(client, topic, group, instance_id=instance_id)
        self._topic_id = uuid.UUID(cluster.image.topic_ids[topic])
        self.id, self.generation = uuid.uuid4().hex, 0
        self.part = None

    def say(self, holds=None, *, version=1, **more):
        """Return the answer to a heartbeat; of one that is good, note epoch and part."""
        module, _ = payload(CONSUMER_GROUP_HEARTBEAT, version, EntityType.request)
        parts = module.TopicPartitions(topic_id=self._topic_id, partitions=tuple(holds or ()))
        fields = {
            "group_id": self._group,
            "member_id": self.id,
            "member_epoch": self.generation,
            "instance_id": self.instance_id,
            "topic_partitions": None if holds is None else (parts,) if holds else (),
            **more,
        }
        answer = self._client.ask(CONSUMER_GROUP_HEARTBEAT, version, **fields)
        if answer.error_code is ErrorCode.none:
            self.id, self.generation = answer.member_id, answer.member_epoch
            if answer.assignment is not None:
                found = answer.assignment.topic_partitions
                assert {each.topic_id for each in found} <= {self._topic_id}
                self.part = {number for each in found for number in each.partitions}
        return answer

    def join(self, holds=(), **more):
        self.generation = 0
        return self.say(holds, **self.all() | more)

    def all(self):
        timeout = timedelta(seconds=60)
        return {"subscribed_topic_names": (self._topic,), "rebalance_timeout": timeout}

    def fetched(self, **who):
        module, _ = payload(OFFSET_FETCH, 9, EntityType.request)
        topics = (module.OffsetFetchRequestTopics(name=self._topic, partition_indexes=(0,)),)
        me = {"member_id": self.id, "member_epoch": self.generation, **who}
        asked = module.OffsetFetchRequestGroup(group_id=self._group, topics=topics, **me)
        [answer] = self._client.ask(OFFSET_FETCH, 9, groups=(asked,)).groups
        return answer.error_code


@pytest.fixture
def members(cluster, gateway, topic, group):
    """Make members, each with a connection of its own."""
    clients = []

    def make(**how):
        clients.append(RawClient((gateway.host, gateway.port)))
        return Member(clients[-1], cluster, topic, group, **how)

    yield make
    for each in clients:
        each.socket.close()


@pytest.fixture
def joined(members):
    def make(**how):
        member = members(**how)
        assert member.join().error_code is ErrorCode.none
        return member

    return make


def test_a_member_is_told_its_part_once_and_whenever_it_says_all(joined):
    member = joined()
    assert (member.part, member.generation) == ({0, 1}, 1)

    answer = member.say({0, 1})
    assert answer.assignment is None
    assert answer.heartbeat_interval == timedelta(milliseconds=200)
    assert member.say({0, 1}, **member.all()).assignment is not None
    assert member.say().assignment is None


def test_a_member_owns_what_it_is_to_give_up_until_it_holds_it_no_more(cluster, group, joined):
    first, second = joined(), joined()
    assert second.part == set()

    for holds in (None, {0, 1}, None):
        first.say(holds)
        assert second.say().assignment is None
    assert len(first.part) == 1
    assert first.generation < second.generation
    owned = [each.partitions for each in cluster.describe_group_members(group).members]
    assert sorted(map(len, owned)) == [0, 2]

    first.say(first.part)
    second.say()
    assert first.generation == second.generation
    assert first.part | second.part == {0, 1}
    assert len(second.part) == 1

    assert second.say(member_epoch=LEAVES).member_epoch == LEAVES
    first.say()
    assert first.part == {0, 1}


NOTHING = {"subscribed_topic_names": None}


@pytest.mark.parametrize(
    "code, how",
    [
        ("invalid_request", {"member_id": ""}),
        ("invalid_request", {"instance_id": ""}),
        ("invalid_request", NOTHING),
        ("invalid_request", {"holds": None}),
        ("invalid_request", {"holds": {0}}),
        ("invalid_request", {"rebalance_timeout": timedelta(milliseconds=-1)}),
        ("invalid_request", {"member_epoch": AWAY}),
        ("invalid_request", {"member_epoch": -3}),
        ("invalid_regular_expression", NOTHING | {"subscribed_topic_regex": "a.*"}),
        ("none", NOTHING | {"subscribed_topic_regex": ""}),
        ("none", {"version": 0, "member_id": ""}),
        ("unsupported_assignor", {"server_assignor": "best"}),
        ("none", {"server_assignor": "range"}),
        ("invalid_group_id", {"group_id": ""}),
        ("unknown_member_id", {"member_epoch": 3}),
        ("unknown_member_id", {"member_epoch": LEAVES}),
    ],
)
def test_a_join_is_taken_or_refused_as_in_kafka(members, code, how):
    assert members().join(**how).error_code is ErrorCode[code]


def test_a_full_group_takes_no_more(cluster, joined, members):
    joined()
    cluster.alter_cluster_configs({"group.consumer.max.size": "1"})
    try:
        assert members().join().error_code is ErrorCode.group_max_size_reached
    finally:
        cluster.alter_cluster_configs({"group.consumer.max.size": None})


def test_another_epoch_is_fenced_but_one_whose_answer_may_have_been_lost(joined):
    first, second = joined(), joined()
    first.say()
    first.say(first.part)
    before, now, [mine] = 1, first.generation, first.part
    assert now > before

    fenced, none = ErrorCode.fenced_member_epoch, ErrorCode.none
    for epoch, holds, code in [
        (now + 1, {mine}, fenced),
        (before, None, fenced),
        (before, {0, 1}, fenced),
        (before, {mine}, none),
        (before, set(), none),
        (now, None, none),
    ]:
        assert first.say(holds, member_epoch=epoch).error_code is code, (epoch, holds)
    # Who is fenced has let go all, and joins again.
    assert first.join().member_epoch == now
    assert first.part == {mine}
    assert second.say().error_code is none


def test_a_static_member_that_is_away_keeps_its_part_for_its_next_life(members, joined):
    before = joined(instance_id="a")
    other = joined()
    after = members(instance_id="a")
    assert after.join().error_code is ErrorCode.unreleased_instance_id

    before.say()
    before.say(before.part)
    assert before.say(member_epoch=AWAY).member_epoch == AWAY
    assert other.say().assignment is not None
    assert after.join().error_code is ErrorCode.none
    assert after.part == before.part
    assert before.say().error_code is ErrorCode.fenced_instance_id
    assert before.say(member_epoch=LEAVES).error_code is ErrorCode.fenced_instance_id
    assert after.say(member_epoch=LEAVES).error_code is ErrorCode.none
    other.say()
    assert other.part == {0, 1}


def test_offsets_are_of_members_at_their_epoch(cluster, topic, joined):
    cluster.append(topic, [{"value": "a", "partition": 0}] * 3)
    member, nobody = joined(), joined()
    stale, unknown = ErrorCode.stale_member_epoch, ErrorCode.unknown_member_id

    assert member.commit(2, version=9) is ErrorCode.none
    assert member.commit(3, version=9, generation=9) is stale
    assert member.commit(3, version=9, member_id="b") is unknown
    assert nobody.commit(3, version=9) is stale  # it does not own the partition
    assert member.fetched() is ErrorCode.none
    assert member.fetched(member_epoch=9) is stale
    assert member.fetched(member_id="b") is unknown
    assert member.fetched(member_id=None, member_epoch=-1) is ErrorCode.none


def test_another_gateway_goes_on_with_a_member(cluster, topic, group, joined, monkeypatch):
    member = joined()
    monkeypatch.setattr(Gateways, "coordinates", lambda *_: True)  # as it does when one is away
    other = Gateway(cluster._node, listening_at("127.0.0.1:0"))
    other.begin()
    try:
        with RawClient((other.host, other.port)) as client:
            moved = Member(client, cluster, topic, group)
            moved.id, moved.generation = member.id, member.generation
            # It can't tell yet by which code this member knows that it is behind.
            again = ErrorCode.coordinator_load_in_progress
            assert moved.commit(0, version=9, generation=9) is again
            assert moved.say().error_code is ErrorCode.none
            assert moved.part == {0, 1}
            assert moved.commit(0, version=9, generation=9) is ErrorCode.stale_member_epoch
    finally:
        other.end()


def test_a_gateway_hears_no_member_of_a_group_that_another_coordinates(members, monkeypatch):
    monkeypatch.setattr(Gateways, "coordinates", lambda *_: False)
    assert members().join().error_code is ErrorCode.not_coordinator


def test_groups_are_listed_by_type_and_described(cluster, client, topic, group, joined):
    member = joined(instance_id="a")
    listed = [
        {each.group_id: each.group_type for each in client.ask(LIST_GROUPS, 5, **how).groups}
        for how in ({"types_filter": ("Consumer",)}, {"types_filter": ("classic",)}, {})
    ]
    assert listed[0] == listed[2] == listed[0] | {group: "consumer"}
    assert listed[1] == {}

    asked = {"group_ids": (group, "nobody's"), "include_authorized_operations": False}
    found, missing = client.ask(CONSUMER_GROUP_DESCRIBE, 1, **asked).groups
    [described] = found.members
    [part] = described.assignment.topic_partitions
    assert (found.group_state, found.assignor_name) == ("Stable", "uniform")
    assert found.group_epoch == found.assignment_epoch == described.member_epoch == 1
    assert (described.member_id, described.instance_id) == (member.id, "a")
    assert (described.client_id, described.subscribed_topic_names) == ("raw", (topic,))
    assert (part.topic_name, part.partitions) == (topic, (0, 1))
    assert described.target_assignment == described.assignment
    assert missing.error_code is ErrorCode.group_id_not_found


# Clients

KILLED = """
import json, sys, confluent_kafka
consumer = confluent_kafka.Consumer(json.loads(sys.argv[1]))
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(1)
"""


def test_clients_leave_and_are_killed(cluster, gateway, topic, group):
    cluster.alter_cluster_configs({"group.consumer.session.timeout.ms": "1000"})
    address = f"{gateway.host}:{gateway.port}"
    how = {"bootstrap.servers": address, "group.id": group, "group.protocol": "consumer"}
    killed = subprocess.Popen([sys.executable, "-c", KILLED, json.dumps(how), topic])

    def parts():
        known = cluster.image.consumer_groups.get(group)
        return [] if known is None else sorted(len(each.owned) for each in known.members.values())

    try:
        stays, leaves = (Reader(by_consumer_protocol, address, topic, group) for _ in range(2))
        wait_for(lambda: parts() == [0, 1, 1])
        leaves.end()
        wait_for(lambda: parts() == [1, 1])
        killed.kill()
        wait_for(lambda: parts() == [2])
        append(cluster, topic, range(20))
        wait_for(lambda: len(stays.found) == 20)
        stays.end()
        assert sorted(stays.found) == texts(range(20))
    finally:
        killed.kill()
        killed.wait()
        cluster.alter_cluster_configs({"group.consumer.session.timeout.ms": None})
