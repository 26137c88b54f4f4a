"""The port of `serve`: pages that fail are told in the log, and clients that go away are not."""

import json
import logging
import socket
import threading
import urllib.error
import urllib.request

import pytest

from kafka_on_spark.cli.serve.health_port import THREADS, HealthPort
from kafka_on_spark.service.serve.health import Answer

WAIT_S = 60


def broken():
    raise ZeroDivisionError("a bug")


def opened(host="127.0.0.1", metrics=lambda: "x 1\n"):
    return HealthPort(
        host, 0,
        healthz=broken,
        readyz=lambda: Answer(is_well=False, body={"reasons": ["away"]}),
        metrics=metrics,
        metrics_type="text/plain; charset=utf-8",
    )  # fmt: skip


@pytest.fixture
def port():
    port = opened()
    yield port.port
    port.close(WAIT_S)


def asked(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=WAIT_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_page_that_fails_is_an_answer_and_stands_in_the_log_with_its_place(port, caplog):
    assert asked(port, "/healthz") == (500, "this page has failed: the log says why\n")
    assert asked(port, "/metrics") == (200, "x 1\n")
    assert asked(port, "/nothing") == (404, "Not Found")

    [told] = caplog.records
    assert told.levelno == logging.ERROR
    assert "/healthz" in told.getMessage()
    assert told.exc_info[0] is ZeroDivisionError


def test_figures_that_hang_at_a_disk_hold_up_no_probe():
    hung, thawed = threading.Semaphore(0), threading.Event()

    def hang():
        hung.release()
        thawed.wait(WAIT_S)
        return ""

    port = opened(metrics=hang)
    askers = [
        threading.Thread(target=asked, args=(port.port, "/metrics"), daemon=True)
        for _ in range(THREADS)
    ]
    for each in askers:
        each.start()
        assert hung.acquire(timeout=WAIT_S)

    status, body = asked(port.port, "/readyz")
    thawed.set()
    for each in askers:
        each.join(WAIT_S)
    port.close(WAIT_S)

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
    port = opened("::1")
    try:
        with urllib.request.urlopen(f"{port.address}/metrics", timeout=WAIT_S) as answer:
            assert answer.read() == b"x 1\n"
        assert port.address == f"http://[::1]:{port.port}"
    finally:
        port.close(WAIT_S)
