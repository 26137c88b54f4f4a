"""The port of `serve`: pages that fail are told in the log, and clients that go away are not."""

import logging
import socket
import urllib.error
import urllib.request

import pytest

from kafka_on_spark.cli.serve.health_port import HealthPort, metrics_page

WAIT_S = 60


def broken():
    raise ZeroDivisionError("a bug")


@pytest.fixture
def port():
    pages = {"/metrics": metrics_page(lambda: "x 1\n", "text/plain"), "/healthz": broken}
    port = HealthPort("127.0.0.1", 0, pages)
    yield port.port
    port.close()


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
    assert asked(port, "/nothing") == (404, "there are /metrics and /healthz\n")

    [told] = caplog.records
    assert told.levelno == logging.ERROR
    assert "/healthz" in told.getMessage()
    assert told.exc_info[0] is ZeroDivisionError


def test_a_client_that_goes_away_is_not_told(port, caplog):
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.sendall(b"GET /metrics HTTP/1.1\r\n")

    assert asked(port, "/metrics")[0] == 200
    assert caplog.records == []


def test_what_is_no_address_is_a_page_that_is_not_there(port, caplog):
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as client:
        client.sendall(b"GET http://[ HTTP/1.0\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.0 404"

    assert caplog.records == []


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_an_address_of_ipv6_is_one_too():
    with socket.socket(socket.AF_INET6) as tried:
        try:
            tried.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"this machine has no address of IPv6: {error}")
    port = HealthPort("::1", 0, {"/metrics": metrics_page(lambda: "x 1\n", "text/plain")})
    try:
        with urllib.request.urlopen(f"{port.address}/metrics", timeout=WAIT_S) as answer:
            assert answer.read() == b"x 1\n"
        assert port.address == f"http://[::1]:{port.port}"
    finally:
        port.close()
