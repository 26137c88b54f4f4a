"""Fetches and offsets by Kafka's protocol."""

import threading
import time
import uuid

import pytest
from aiokafka.record.memory_records import MemoryRecords
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from kafka_on_spark.gateway.gateways import GATEWAY_ID
from kafka_on_spark.gateway.wire import LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH
from tests.gateway.raw_client import payload


def records(answer):
    """Return (offset, value) of the records that a client takes from an answer."""
    memory, found = MemoryRecords(answer.records), []
    while memory.has_next():
        found += [(each.offset, each.value) for each in memory.next_batch()]
    return found


@pytest.fixture
def filled(cluster, topic):
    """A topic with ten records in partition 0, of three appends."""
    for start, end in ((0, 4), (4, 8), (8, 10)):
        rows = [
            {"value": str(each), "partition": 0, "timestamp": 1000 + each}
            for each in range(start, end)
        ]
        cluster.append(topic, rows)
    return topic


@pytest.mark.parametrize("offset", range(11))
def test_a_fetch_has_all_that_is_committed_from_its_offset_on(client, filled, offset):
    answer = client.fetch(filled, offset)

    assert answer.error_code is ErrorCode.none
    assert (answer.high_watermark, answer.log_start_offset) == (10, 0)
    found = [each for each in records(answer) if each[0] >= offset]
    assert found == [(each, str(each).encode()) for each in range(offset, 10)]


@pytest.mark.parametrize("offset", [11, 99, -1])
def test_an_offset_that_is_not_in_the_log_is_out_of_range(client, filled, offset):
    assert client.fetch(filled, offset).error_code is ErrorCode.offset_out_of_range


def test_a_partition_that_is_not_there_is_unknown(client, filled):
    assert client.fetch(filled, 0, partition=9).error_code is ErrorCode.unknown_topic_or_partition
    assert client.fetch("nowhere", 0).error_code is ErrorCode.unknown_topic_or_partition


def test_a_client_of_another_leadership_is_refused(cluster, client, filled):
    epoch = cluster.image.topic(filled).partitions[0].leader_epoch

    assert client.fetch(filled, 0, epoch=epoch).error_code is ErrorCode.none
    assert client.fetch(filled, 0, epoch=epoch + 1).error_code is ErrorCode.unknown_leader_epoch


def test_a_fetch_waits_for_the_next_commit_of_any_process(cluster, client, filled):
    later = threading.Timer(0.5, cluster.append, [filled, [{"value": "new", "partition": 0}]])
    later.start()
    began = time.monotonic()

    answer = client.fetch(filled, 10, wait_s=20.0)

    assert records(answer) == [(10, b"new")]
    assert time.monotonic() - began < 15
    later.join()


def test_a_fetch_without_records_ends_with_its_time(client, filled):
    assert client.fetch(filled, 10, wait_s=0.2).records in (b"", None)


def test_bytes_are_bounded_and_one_batch_comes_whatever_it_has(cluster, client, topic):
    for _ in range(4):
        cluster.append(topic, [{"value": b"x" * 300_000, "partition": 0} for _ in range(4)])

    assert len(client.fetch(topic, 0, bytes_max=1).records) > 300_000
    found = client.fetch(topic, 0, bytes_max=2_500_000).records
    assert 1_200_000 < len(found) <= 2_500_000


def test_what_compaction_has_taken_is_passed_over(cluster, client, topic):
    cluster.alter_topic_configs(
        topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    )
    for n in range(6):
        cluster.append(topic, [{"key": "k", "value": str(n), "partition": 0}])
    cluster.maintain()
    cluster.maintain()

    offset, found = 0, []
    while offset < 6:
        taken = records(client.fetch(topic, offset))
        content = client.fetch(topic, offset).records
        assert content
        found += taken
        offset = MemoryRecords(content).next_batch().next_offset

    assert found[-1] == (5, b"5")


def offsets(client, topic, time_ms, partition=0):
    module, _ = payload(LIST_OFFSETS, 7, EntityType.request)
    asked = module.ListOffsetsPartition(partition_index=partition, timestamp=time_ms)
    answer = client.ask(
        LIST_OFFSETS,
        7,
        replica_id=-1,
        isolation_level=0,
        topics=(module.ListOffsetsTopic(name=topic, partitions=(asked,)),),
    )
    [[found]] = [each.partitions for each in answer.topics]
    return found.error_code, found.offset, found.timestamp


@pytest.mark.parametrize(
    "time_ms, offset, found_ms",
    [
        (-2, 0, -1),
        (-1, 10, -1),
        (0, 0, 1000),
        (1004, 4, 1004),
        (1005, 5, 1005),
        (9999, -1, -1),
        (-3, 9, 1009),
    ],
)
def test_places_in_a_log_are_found_by_time(client, filled, time_ms, offset, found_ms):
    assert offsets(client, filled, time_ms) == (ErrorCode.none, offset, found_ms)


def test_places_of_what_is_not_there_are_unknown(client, filled):
    assert offsets(client, filled, -1, 9)[0] is ErrorCode.unknown_topic_or_partition
    assert offsets(client, filled, -99)[0] is ErrorCode.unsupported_version


def describe(client, version, *asked):
    module, _ = payload(METADATA, version, EntityType.request)
    ids = {"topic_id": None} if version >= 10 else {}
    topics = tuple(
        module.MetadataRequestTopic(topic_id=each, name=None)
        if isinstance(each, uuid.UUID)
        else module.MetadataRequestTopic(name=each, **ids)
        for each in asked
    )
    more = {}
    if version >= 8:
        more["include_topic_authorized_operations"] = False
    if 8 <= version <= 10:
        more["include_cluster_authorized_operations"] = False
    return client.ask(METADATA, version, topics=topics or None, **more)


@pytest.mark.parametrize("version", [1, 5, 9, 12])
def test_a_client_sees_gateways_as_leaders_and_brokers_as_replicas(
    cluster, gateway, client, filled, version
):
    answer = describe(client, version, filled, "nowhere")

    [broker] = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (GATEWAY_ID, gateway.host, gateway.port)
    found = {each.name: each for each in answer.topics}
    assert found["nowhere"].error_code is ErrorCode.unknown_topic_or_partition
    parts = {each.partition_index: each for each in found[filled].partitions}
    assert set(parts) == {0, 1}
    assert {each.leader_id for each in parts.values()} == {GATEWAY_ID}
    assert {*parts[0].replica_nodes} == {*parts[0].isr_nodes} == {1, 2, 3}


def test_topics_are_found_by_their_ids_and_all_of_them_are_listed(cluster, client, filled):
    found = uuid.UUID(cluster.image.topic(filled).topic_id)

    [topic] = describe(client, 12, found).topics
    assert (topic.name, topic.topic_id) == (filled, found)
    [missing] = describe(client, 12, uuid.uuid4()).topics
    assert missing.error_code is ErrorCode.unknown_topic_id
    assert {each.name for each in describe(client, 9).topics} == set(cluster.image.topic_ids)


def test_where_a_leadership_ends_is_told_to_clients_that_check_their_place(cluster, client, topic):
    module, _ = payload(OFFSET_FOR_LEADER_EPOCH, 4, EntityType.request)

    def end(epoch, known=-1, partition=0):
        asked = module.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=known, leader_epoch=epoch
        )
        topics = (module.OffsetForLeaderTopic(topic=topic, partitions=(asked,)),)
        answer = client.ask(OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics)
        [found] = answer.topics[0].partitions
        return found.error_code.name, found.leader_epoch, found.end_offset

    def lead_by(replicas):
        cluster.reassign({(topic, 0): replicas})
        cluster.elect_leaders("preferred", [(topic, 0)])

    cluster.append(topic, [{"value": "a", "partition": 0}] * 3)
    partition = cluster.image.topic(topic).partitions[0]
    first = partition.leader_epoch
    lead_by(partition.replicas[::-1])
    last = cluster.image.topic(topic).partitions[0].leader_epoch
    assert last > first

    assert end(first) == end(first, known=last) == ("none", first, 3)
    assert end(last) == ("none", last, 3)  # its leader has appended nothing yet
    cluster.append(topic, [{"value": "b", "partition": 0}] * 2)
    assert end(last) == ("none", last, 5)
    assert end(last + 1) == end(0, partition=1) == ("none", -1, -1)
    assert end(first, known=first) == ("fenced_leader_epoch", -1, -1)
    assert end(first, known=last + 1) == ("unknown_leader_epoch", -1, -1)
    assert end(0, partition=7) == ("unknown_topic_or_partition", -1, -1)
