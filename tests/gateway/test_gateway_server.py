"""What a client may send: what is answered, what is hung up on, and that nobody else is harmed."""

import struct
import threading
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.gateway import server
from kafka_on_spark.gateway.gateway import listening_at
from kafka_on_spark.gateway.wire import API_VERSIONS, METADATA, SUPPORTED, read_request
from tests.cluster.serving.processes import wait_for
from tests.gateway.raw_client import RawClient, batch


def versions(client):
    return client.ask(API_VERSIONS, 3, client_software_name="raw", client_software_version="1")


def test_a_client_learns_which_requests_are_answered(client):
    found = {
        each.api_key: (each.min_version, each.max_version) for each in versions(client).api_keys
    }

    assert found == SUPPORTED


def test_a_client_of_a_later_kafka_is_told_which_versions_there_are(client):
    client.send_bytes(struct.pack(">ihhih", 10, API_VERSIONS, 99, 7, -1))

    answer = client.receive((API_VERSIONS, 0, 7))

    assert answer.error_code is ErrorCode.unsupported_version
    assert len(answer.api_keys) == len(SUPPORTED)


REFUSED = {
    "2 GiB of length": struct.pack(">i", 2**31 - 1),
    "a length below 0": struct.pack(">i", -5),
    "no length at all": struct.pack(">i", 0),
    "a request too short": struct.pack(">ih", 2, 3),
    "an unknown kind": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "a version that is not answered": struct.pack(">ihhih", 10, METADATA, 99, 1, -1),
    "rubbish in a request": struct.pack(">ihhih", 60, METADATA, 12, 1, -1) + b"\xff" * 50,
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_client_that_sends_no_request_is_hung_up_on(client, gateway, name):
    client.send_bytes(REFUSED[name])

    assert client.is_hung_up()
    with RawClient((gateway.host, gateway.port)) as other:
        assert versions(other).error_code is ErrorCode.none


def test_half_a_request_keeps_nobody_else_waiting(client, gateway):
    client.send_bytes(struct.pack(">i", 90 << 20) + b"half")
    others = [RawClient((gateway.host, gateway.port)) for _ in range(4)]
    for each in others[1:]:
        each.send_bytes(struct.pack(">i", 90 << 20))

    assert versions(others[0]).error_code is ErrorCode.none
    for each in others:
        each.socket.close()


def test_answers_come_in_the_order_of_requests(client, topic):
    slow = client.send_produce(topic, {0: batch([b"a"])})
    quick = client.send(API_VERSIONS, 3, client_software_name="raw", client_software_version="1")

    assert client.receive(slow).responses
    assert client.receive(quick).error_code is ErrorCode.none


def test_more_connections_than_allowed_are_hung_up_on(gateway, client, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", len(gateway._server._connections))

    with RawClient((gateway.host, gateway.port)) as another:
        assert another.is_hung_up()


def test_what_waits_for_room_is_read_once_others_are_answered(gateway, topic, monkeypatch):
    monkeypatch.setattr(gateway._server, "_room", 300_000)
    threads, found = [], []

    def send():
        with RawClient((gateway.host, gateway.port)) as each:
            found.append(each.produce(topic, {0: batch([b"x" * 100_000])})[0][0])

    for _ in range(6):
        threads.append(threading.Thread(target=send))
        threads[-1].start()
    for each in threads:
        each.join(30)

    assert found == [0] * 6
    wait_for(lambda: gateway._server._room == 300_000)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(sorted(SUPPORTED)), st.integers(0, 12))
def test_any_bytes_are_a_request_or_refused(content, key, version):
    for each in (content, struct.pack(">hhi", key, version, 1) + content):
        with suppress(InvalidRequestError):
            assert read_request(each).api_key in SUPPORTED


ADDRESSES = ["0.0.0.0:9092", "192.0.2.1:9092", "example.org:9092", "127.0.0.1", "127.0.0.1:x", ":1"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_others_can_reach_is_refused(address):
    with pytest.raises(InvalidRequestError, match="address of this machine alone"):
        listening_at(address)


def test_an_address_that_is_taken_is_refused(gateway):
    with pytest.raises(InvalidRequestError, match="give another --kafka"):
        listening_at(f"127.0.0.1:{gateway.port}")
