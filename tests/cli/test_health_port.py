"""The port of `serve`: pages that fail are told in the log, and clients that go away are not."""

import json
import logging
import socket
import threading
import urllib.error
import urllib.request

import pytest

from kafka_on_spark.cli.health_port import answer_probes
from kafka_on_spark.observe.metric import Metric

WAIT_S = 60


class Served:
    """A cluster that is away, asked by a probe that has a bug."""

    def health(self):
        raise ZeroDivisionError("a bug")

    def readiness(self):
        return {"ok": False, "reasons": ["away"]}

    def metrics(self):
        return [Metric(type="KafkaController", name="GlobalTopicCount", value=1)]


def opened(served):
    return int(answer_probes("127.0.0.1", 0, served).rpartition(":")[2])


@pytest.fixture
def port():
    return opened(Served())


def asked(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=WAIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_page_that_fails_is_an_answer_and_stands_in_the_log_with_its_place(port, caplog):
    assert asked(port, "/healthz") == (500, "this page has failed: the log says why\n")
    status, text = asked(port, "/metrics")
    assert status == 200
    assert "kafka_controller_kafkacontroller_globaltopiccount 1.0" in text
    assert asked(port, "/nothing") == (404, "Not Found")

    [told] = caplog.records
    assert told.levelno == logging.ERROR
    assert "/healthz" in told.getMessage()
    assert told.exc_info[0] is ZeroDivisionError


def test_figures_that_wait_for_a_disk_hold_up_no_probe():
    hung, thawed = threading.Event(), threading.Event()

    class Hanging(Served):
        def metrics(self):
            hung.set()
            thawed.wait(WAIT_S)
            return []

    port = opened(Hanging())
    asker = threading.Thread(target=asked, args=(port, "/metrics"), daemon=True)
    asker.start()
    assert hung.wait(WAIT_S)

    status, body = asked(port, "/readyz")
    thawed.set()
    asker.join(WAIT_S)

    assert (status, json.loads(body)) == (503, {"ok": False, "reasons": ["away"]})


def test_a_client_that_goes_away_is_not_told(port, caplog):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.sendall(b"GET /metrics HTTP/1.1\r\n")

    assert asked(port, "/metrics")[0] == 200
    assert caplog.records == []


def test_what_is_no_address_is_a_page_that_is_not_there(port, caplog):
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as client:
        client.sendall(b"GET http://[ HTTP/1.0\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 404"

    assert caplog.records == []


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_an_address_of_ipv6_is_one_too():
    with socket.socket(socket.AF_INET6) as tried:
        try:
            tried.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"this machine has no address of IPv6: {error}")
    address = answer_probes("::1", 0, Served())

    assert address.startswith("http://[::1]:")
    with urllib.request.urlopen(f"{address}/metrics", timeout=WAIT_S) as answer:
        assert answer.status == 200
