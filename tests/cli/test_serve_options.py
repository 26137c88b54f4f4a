"""Options of `serve` that nothing would obey, or that no clock can, are refused in a sentence; and the
signals that end it are those that end a server."""

import signal

import pytest
from typer.testing import CliRunner

from kafka_on_spark.cli.application import app
from kafka_on_spark.cli.interrupts import Interrupts
from kafka_on_spark.cli.log_lines import LOG

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


def test_what_is_under_way_goes_on_where_a_terminal_is_closed_which_sends_the_signal_twice(
    handlers,
):
    signal.signal(signal.SIGHUP, lambda *given: None)

    with Interrupts() as interrupts:
        for _ in range(2):
            signal.raise_signal(signal.SIGHUP)
        assert interrupts.code == 129
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_under_nohup_a_terminal_that_is_closed_ends_nothing(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with Interrupts() as told:
        signal.raise_signal(signal.SIGHUP)

    assert told.code is None
