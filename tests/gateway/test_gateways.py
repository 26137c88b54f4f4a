"""Gateways as members of the cluster: which are there, and what each is the place for."""

import threading
from contextlib import contextmanager

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v7.request import MetadataRequestTopic

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.gateway.gateway import Gateway, listening_at
from kafka_on_spark.gateway.gateways import GATEWAY_ID, GATEWAYS
from kafka_on_spark.gateway.wire import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA
from kafka_on_spark.groups.liveness import HeartbeatFiles
from tests.cluster.serving.processes import wait_for
from tests.gateway.raw_client import RawClient, batch

SESSION_MS = 400
PARTITIONS = 16


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateways")
    brokers = {each: folder / str(each) for each in (1, 2)}
    configs = {"broker.session.timeout.ms": str(SESSION_MS)}
    with Cluster.create(folder / "metadata", brokers, configs=configs) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS, replication_factor=1)
    return str(folder / "metadata")


@contextmanager
def gateway(root, at="127.0.0.1:0"):
    """A gateway with a node of its own, as of another process."""
    with Cluster.open(root) as cluster:
        made = Gateway(cluster._node, listening_at(at))
        made.begin()
        try:
            yield made
        finally:
            made.end()


def ask(gateway, key, version, **fields):
    with RawClient((gateway.host, gateway.port)) as client:
        return client.ask(key, version, **fields)


def metadata(gateway):
    return ask(gateway, METADATA, 7, topics=(MetadataRequestTopic(name="orders"),))


def ports(gateway):
    return {each.port for each in metadata(gateway).brokers}


def leaders(gateway):
    """The ports of the leaders of the topic's partitions."""
    answer = metadata(gateway)
    places = {each.node_id: each.port for each in answer.brokers}
    return {each.partition_index: places[each.leader_id] for each in answer.topics[0].partitions}


def coordinators(gateway):
    groups = tuple(f"group {number}" for number in range(PARTITIONS))
    answer = ask(gateway, FIND_COORDINATOR, 4, key_type=0, coordinator_keys=groups)
    return {each.key: each.port for each in answer.coordinators}


def test_clients_of_each_gateway_see_all_and_the_same_places(root):
    with gateway(root) as one, gateway(root) as other:
        both = {one.port, other.port}
        wait_for(lambda: ports(one) == both)

        assert ports(other) == both
        assert {*leaders(one).values()} == both
        assert leaders(one) == leaders(other)
        assert {*coordinators(one).values()} == both
        assert coordinators(one) == coordinators(other)
        found = ask(one, DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=False)
        assert {each.broker_id for each in found.brokers} == {GATEWAY_ID, GATEWAY_ID + 1}
        assert found.controller_id == metadata(one).controller_id

        other.end()
        wait_for(lambda: ports(one) == {one.port})
        assert {*leaders(one).values()} == {*coordinators(one).values()} == {one.port}


def test_a_gateway_appends_nothing_to_a_partition_that_another_leads(root):
    with gateway(root) as one, gateway(root) as other:
        wait_for(lambda: ports(one) == {one.port, other.port})
        led = leaders(one)
        with RawClient((one.host, one.port)) as client:
            found = client.produce("orders", {number: batch([b"a"]) for number in led})

    code = {one.port: ErrorCode.none, other.port: ErrorCode.not_leader_or_follower}
    assert {number: found[number][0] for number in led} == {
        number: int(code[port]) for number, port in led.items()
    }


def test_one_that_is_gone_without_a_word_is_out_after_its_session_and_one_that_returns_at_once(
    root, monkeypatch
):
    silent = set()
    beat = HeartbeatFiles.beat

    def beat_of(files, group, member_id, count):
        if threading.current_thread() in silent:
            raise KafkaStorageError("not now")
        beat(files, group, member_id, count)

    monkeypatch.setattr(HeartbeatFiles, "beat", beat_of)
    with gateway(root) as one, gateway(root) as other:
        both = {one.port, other.port}
        wait_for(lambda: ports(one) == both)
        lives = other._gateways.me

        silent.add(other._gateways._thread)
        wait_for(lambda: ports(one) == {one.port})
        silent.clear()
        wait_for(lambda: ports(one) == both)
        assert other._gateways.me != lives

    with gateway(root) as one, gateway(root) as other:
        wait_for(lambda: ports(one) == {one.port, other.port})
        monkeypatch.setattr(other._gateways, "end", lambda timeout_s: None)  # it is killed
        other._gateways._ended.set()
        other.end()
        with gateway(root, f"127.0.0.1:{other.port}") as later:
            assert ports(later) == {one.port, later.port}


def test_gateways_are_shown_as_a_group_of_the_cluster_and_to_no_client(root):
    with gateway(root) as one, Cluster.open(root) as cluster:
        [member] = cluster.describe_group_members(GATEWAYS).members

        assert member.instance_id == str(GATEWAY_ID)
        assert member.client.client_id == f"PLAINTEXT://127.0.0.1:{one.port}"
        assert [each.group_id for each in ask(one, 16, 4).groups] == []
