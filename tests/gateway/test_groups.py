"""Groups by Kafka's classic protocol: clients' members beside those of Python, and what is refused."""

import asyncio
import struct
import threading
import time
from collections import Counter
from datetime import timedelta
from io import BytesIO

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kafka_on_spark.gateway import groups
from kafka_on_spark.gateway.gateway import Gateway, listening_at
from kafka_on_spark.gateway.gateways import Gateways
from kafka_on_spark.gateway.wire import (
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tests.cluster.serving.processes import wait_for
from tests.gateway.raw_client import RawClient, payload

BEAT_MS = 200


@pytest.fixture(autouse=True)
def _targets_come_soon(monkeypatch):
    monkeypatch.setattr(groups, "SHARE_MS", 100)


@pytest.fixture
def group(topic):
    return f"group of {topic}"


class Reader(threading.Thread):
    """A member that reads until it is told to end, and commits what it has read."""

    def __init__(self, read, address, topic, group):
        super().__init__(daemon=True)
        self.found = []
        self.ended = threading.Event()
        self._read = lambda: read(self, address, topic, group)
        self.start()

    def run(self):
        self._read()

    def end(self):
        self.ended.set()
        self.join(30)
        assert not self.is_alive()


CLASSIC = {"heartbeat.interval.ms": BEAT_MS, "client.id": "confluent"}
CONSUMER_PROTOCOL = {"group.protocol": "consumer", "client.id": "consumer protocol"}


def by_confluent(reader, address, topic, group, **how):
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **(how or CLASSIC),
        }
    )
    consumer.subscribe([topic])
    while not reader.ended.is_set():
        found = consumer.poll(0.1)
        if found is not None and found.error() is None:
            reader.found.append(found.value())
    consumer.close()


def by_consumer_protocol(reader, address, topic, group):
    by_confluent(reader, address, topic, group, **CONSUMER_PROTOCOL)


def by_kafka_python(reader, address, topic, group):
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=BEAT_MS,
    )
    while not reader.ended.is_set():
        for records in consumer.poll(100).values():
            reader.found += [each.value for each in records]
    consumer.close()


def by_aiokafka(reader, address, topic, group):
    async def run():
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=BEAT_MS,
        )
        async with consumer:
            while not reader.ended.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    reader.found += [each.value for each in records]

    asyncio.run(run())


READERS = {
    "confluent": by_confluent,
    "confluent, group.protocol=consumer": by_consumer_protocol,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


def append(cluster, topic, numbers):
    cluster.append(topic, [{"key": str(each), "value": str(each)} for each in numbers])


def texts(numbers):
    return sorted(str(each).encode() for each in numbers)


@pytest.mark.parametrize("name", READERS)
def test_a_member_goes_on_where_the_group_stands(cluster, gateway, topic, group, name):
    address = f"{gateway.host}:{gateway.port}"
    append(cluster, topic, range(20))
    first = Reader(READERS[name], address, topic, group)
    wait_for(lambda: len(first.found) == 20)
    first.end()
    append(cluster, topic, range(20, 30))

    second = Reader(READERS[name], address, topic, group)
    wait_for(lambda: len(second.found) == 10)
    second.end()

    assert sorted(first.found) == texts(range(20))
    assert sorted(second.found) == texts(range(20, 30))
    assert sum(each.lag for each in cluster.describe_group(group)) == 0


def test_members_of_five_kinds_share_out_a_topic(cluster, gateway, topic, group):
    address = f"{gateway.host}:{gateway.port}"
    cluster.add_partitions(topic, to=5)

    def by_python(reader, *_):
        with cluster.consumer(topic, group=group, auto_offset_reset="earliest") as consumer:
            while not reader.ended.is_set():
                reader.found += [each["value"] for each in consumer.poll(100).to_pylist()]

    readers = [Reader(each, address, topic, group) for each in (*READERS.values(), by_python)]

    def is_shared_out():
        if group not in cluster.image.consumer_groups:
            return False
        members = cluster.describe_group_members(group).members
        return Counter(len(each.partitions) for each in members) == {1: 5}

    wait_for(is_shared_out)
    append(cluster, topic, range(100))
    wait_for(lambda: sum(len(each.found) for each in readers) >= 100)
    described = cluster.describe_group_members(group).members
    for each in readers:
        each.end()

    owned = [partition for each in described for partition in each.partitions]
    assert len(owned) == len(set(owned)) == 5
    assert {each.client.client_id for each in described} >= {"confluent", "consumer protocol"}
    assert sorted(value for each in readers for value in each.found) == texts(range(100))
    assert all(each.found for each in readers)


# One by one


def subscription(topic, owned=(), version=1):
    types = load_entity_module("consumer_protocol_subscription", version, EntityType.data)
    parts = tuple(types.TopicPartition(topic=topic, partitions=(each,)) for each in owned)
    more = {"owned_partitions": parts} if version >= 1 else {}
    buffer = BytesIO(struct.pack(">h", version))
    buffer.seek(2)
    entity_writer(types.ConsumerProtocolSubscription)(
        buffer, types.ConsumerProtocolSubscription(topics=(topic,), user_data=None, **more)
    )
    return buffer.getvalue()


class RawMember:
    """A member that does what a test says."""

    def __init__(self, client, topic, group, *, instance_id=None, session_s=30.0):
        self._client, self._topic, self._group = client, topic, group
        self.instance_id, self.session_s = instance_id, session_s
        self.id, self.generation = "", -1

    def join(self, owned=(), **more):
        module, _ = payload(JOIN_GROUP, 9, EntityType.request)
        metadata = subscription(self._topic, owned)
        protocol = module.JoinGroupRequestProtocol(name="range", metadata=metadata)
        fields = {
            "group_id": self._group,
            "session_timeout": timedelta(seconds=self.session_s),
            "rebalance_timeout": timedelta(seconds=30),
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": (protocol,),
            **more,
        }
        answer = self._client.ask(JOIN_GROUP, 9, **fields)
        if answer.error_code is ErrorCode.none:
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer.error_code

    def _fields(self):
        return {
            "group_id": self._group,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance_id,
        }

    def part(self):
        """Return the partitions that it is told to read."""
        answer = self._client.ask(SYNC_GROUP, 5, **self._fields(), assignments=())
        if answer.error_code is not ErrorCode.none:
            return answer.error_code
        types = load_entity_module("consumer_protocol_assignment", 0, EntityType.data)
        found, _ = entity_reader(types.ConsumerProtocolAssignment)(answer.assignment, 2)
        return {n for each in found.assigned_partitions for n in each.partitions}

    def beat(self):
        return self._client.ask(HEARTBEAT, 4, **self._fields()).error_code

    def leave(self):
        module, _ = payload(LEAVE_GROUP, 5, EntityType.request)
        me = module.MemberIdentity(member_id=self.id, group_instance_id=self.instance_id)
        [found] = self._client.ask(LEAVE_GROUP, 5, group_id=self._group, members=(me,)).members
        return found.error_code

    def commit(self, offset, *, partition=0, generation=None, member_id=None, version=8):
        module, _ = payload(OFFSET_COMMIT, version, EntityType.request)
        part = module.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        answer = self._client.ask(
            OFFSET_COMMIT,
            version,
            group_id=self._group,
            generation_id_or_member_epoch=(self.generation if generation is None else generation),
            member_id=self.id if member_id is None else member_id,
            topics=(module.OffsetCommitRequestTopic(name=self._topic, partitions=(part,)),),
        )
        [[found]] = [each.partitions for each in answer.topics]
        return found.error_code

    def offsets(self, version=8):
        """Return the group's offsets by partition."""
        module, _ = payload(OFFSET_FETCH, version, EntityType.request)
        kind = module.OffsetFetchRequestTopics if version >= 8 else module.OffsetFetchRequestTopic
        topics = (kind(name=self._topic, partition_indexes=(0, 1)),)
        if version < 8:
            answer = self._client.ask(OFFSET_FETCH, version, group_id=self._group, topics=topics)
        else:
            asked = module.OffsetFetchRequestGroup(group_id=self._group, topics=topics)
            [answer] = self._client.ask(OFFSET_FETCH, version, groups=(asked,)).groups
        [found] = answer.topics
        return {each.partition_index: each.committed_offset for each in found.partitions}


@pytest.fixture
def members(gateway, topic, group):
    """Make members, each with a connection of its own."""
    clients = []

    def make(**how):
        clients.append(RawClient((gateway.host, gateway.port)))
        return RawMember(clients[-1], topic, group, **how)

    yield make
    for each in clients:
        each.socket.close()


def joined(members, **how):
    member = members(**how)
    assert member.join() is ErrorCode.none
    return member


def rejoin(member, keeps):
    """Join again until a heartbeat asks for nothing; `keeps` what it reads meanwhile."""
    wait_for(lambda: member.beat() is not ErrorCode.none)
    while member.beat() is not ErrorCode.none:
        owned = member.part() if keeps else ()
        assert member.join(owned) is ErrorCode.none
    return member.part()


@pytest.mark.parametrize("keeps", [False, True], ids=["eager", "cooperative"])
def test_a_second_member_gets_a_part_once_the_first_has_given_it_up(members, keeps):
    first = joined(members)
    assert first.part() == {0, 1}
    assert first.beat() is ErrorCode.none

    second = joined(members)
    assert second.part() == set()  # nobody has it yet
    parts = rejoin(first, keeps), rejoin(second, keeps)

    assert sorted(map(len, parts)) == [1, 1]
    assert set.union(*parts) == {0, 1}
    assert second.leave() is ErrorCode.none
    assert rejoin(first, keeps) == {0, 1}


def test_a_member_whose_part_stays_is_left_alone_once_it_has_joined_again(members):
    first, second, third = (joined(members) for _ in range(3))

    parts = [rejoin(each, True) for each in (first, second)]

    assert sorted(map(len, parts)) == [1, 1]
    assert third.join() is ErrorCode.none
    assert third.part() == set()
    assert {each.beat() for each in (first, second, third)} == {ErrorCode.none}


def test_generations_never_fall(members):
    first = joined(members)
    seen = [first.generation]
    for _ in range(2):
        other = joined(members)
        rejoin(first, False)
        seen.append(first.generation)
        other.leave()
        rejoin(first, False)
        seen.append(first.generation)
    first.leave()
    seen.append(joined(members).generation)

    assert seen[:-1] == sorted(set(seen[:-1]))


def test_who_is_no_member_or_of_another_generation_is_told_so(members):
    member = joined(members)
    member.generation += 1
    assert member.beat() is ErrorCode.illegal_generation
    assert member.part() is ErrorCode.illegal_generation
    assert member.commit(0) is ErrorCode.illegal_generation
    member.generation -= 1
    assert member.beat() is ErrorCode.none

    assert member.leave() is ErrorCode.none
    assert member.beat() is ErrorCode.unknown_member_id
    assert member.join() is ErrorCode.unknown_member_id
    assert member.leave() is ErrorCode.unknown_member_id


def test_offsets_are_saved_by_members_alone_while_there_are_some(cluster, topic, members):
    cluster.append(topic, [{"value": "a", "partition": 0}] * 3)
    nobody = members()
    assert nobody.offsets() == {0: -1, 1: -1}
    assert nobody.commit(1) is ErrorCode.none

    member = joined(members)
    assert nobody.commit(2) is ErrorCode.unknown_member_id
    assert member.commit(2) is ErrorCode.none
    assert member.commit(0, partition=9) is ErrorCode.unknown_topic_or_partition

    # A partition without an offset counts as added where the group has one of a lower one.
    assert nobody.offsets() == nobody.offsets(version=7) == {0: 2, 1: 0}


def test_a_member_that_is_silent_for_its_session_is_fenced(cluster, group, members):
    joined(members, session_s=0.5)

    wait_for(lambda: group not in cluster.image.consumer_groups)


def test_a_static_member_that_comes_back_has_its_part_and_fences_its_life_before(members):
    before = joined(members, instance_id="a")
    other = joined(members, instance_id="b")
    rejoin(before, False)
    part = rejoin(other, False)

    after = joined(members, instance_id="b")

    assert after.part() == part
    assert after.id != other.id
    assert other.beat() is ErrorCode.fenced_instance_id
    assert before.beat() is ErrorCode.none


def test_a_gateway_neither_hears_nor_fences_members_of_a_group_that_another_coordinates(
    cluster, group, members, monkeypatch
):
    member = joined(members, session_s=0.5, instance_id="a")
    before = cluster.describe_group_members(group)
    monkeypatch.setattr(Gateways, "coordinates", lambda *_: False)

    answers = member.join(), member.beat(), member.part(), member.commit(0)
    assert {*answers} == {ErrorCode.not_coordinator}
    time.sleep(0.5 + 3 * groups.LOOK_S)
    assert cluster.describe_group_members(group) == before


def test_another_gateway_goes_on_with_a_group(cluster, topic, group, members, monkeypatch):
    member = joined(members)
    monkeypatch.setattr(Gateways, "coordinates", lambda *_: True)  # as it does when one is away
    other = Gateway(cluster._node, listening_at("127.0.0.1:0"))
    other.begin()
    try:
        with RawClient((other.host, other.port)) as client:
            moved = RawMember(client, topic, group)
            moved.id, moved.generation = member.id, member.generation
            assert moved.beat() is ErrorCode.none
            assert moved.part() == {0, 1}
    finally:
        other.end()


@pytest.mark.parametrize(
    "how",
    [{"protocol_type": "connect"}, {"protocols": ()}],
    ids=["of Connect", "without protocols"],
)
def test_a_group_that_shares_out_no_topics_is_refused(members, how):
    assert members().join(**how) is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("kind, code", [(0, 0), (1, 53)], ids=["a group", "transactions"])
def test_a_gateway_coordinates_groups_and_no_transactions(gateway, client, version, kind, code):
    named = {"coordinator_keys": ("g",)} if version >= 4 else {"key": "g"}
    answer = client.ask(FIND_COORDINATOR, version, key_type=kind, **named)
    [found] = answer.coordinators if version >= 4 else [answer]

    assert int(found.error_code) == code
    assert found.port == (gateway.port if code == 0 else -1)
