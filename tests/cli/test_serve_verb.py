"""Options of `serve`, the signals that end it, and its port: pages that fail are told in the log."""

import json
import logging
import signal
import threading
import urllib.error
import urllib.request

import pytest
from typer.testing import CliRunner

from kafka_on_spark.cli.application import app
from kafka_on_spark.cli.process import LOG, Interrupts
from kafka_on_spark.cli.serve import answer_probes
from kafka_on_spark.store.counts import Metric

FORMAT_VARIABLE = "KAFKA_ON_SPARK_LOG_FORMAT"

# fmt: off
REFUSALS = [
    (("--stop-seconds", "inf"), "Invalid value for '--stop-seconds'"),
]
# fmt: on


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Calls `serve` where there is no cluster: what is not refused ends, too."""
    monkeypatch.delenv(FORMAT_VARIABLE, raising=False)
    handlers, level = LOG.handlers, LOG.level

    def run(*options, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        given = [each.format(here=tmp_path) for each in options]
        return CliRunner().invoke(app, ["serve", "--cluster", str(tmp_path / "nothing"), *given])

    yield run
    LOG.handlers, LOG.propagate = handlers, True  # other tests listen
    LOG.setLevel(level)


@pytest.mark.parametrize("options, why", REFUSALS)
def test_what_nothing_would_obey_is_refused_in_a_sentence(serve, options, why):
    result = serve(*options)

    assert result.exit_code == 2
    assert why in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("options, is_json", [((), True), (("--log-format", "text"), False)])
def test_the_option_says_more_than_the_variable(serve, options, is_json):
    result = serve(*options, **{FORMAT_VARIABLE: "json"})

    last = result.stderr.splitlines()[-1]
    assert "there is no cluster at" in last
    assert ('"level": "CRITICAL"' in last) == is_json


@pytest.fixture
def handlers():
    """Sets all handlers back."""
    taken = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {each: signal.getsignal(each) for each in taken}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def test_a_terminal_that_is_closed_ends_it_like_any_other_signal(handlers):
    signal.signal(signal.SIGHUP, lambda *given: None)
    called = []

    with Interrupts(lambda: called.append(1)) as told:
        for _ in range(2):  # from its shell, and from the system
            signal.raise_signal(signal.SIGHUP)

    assert (told.code, called) == (129, [1])


def test_under_nohup_a_terminal_that_is_closed_ends_nothing(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with Interrupts() as told:
        signal.raise_signal(signal.SIGHUP)

    assert told.code is None


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
