"""Several calls on voters at once, whose caller takes what comes first."""

import threading
from itertools import islice
from time import monotonic

import pytest

from kafka_on_spark.errors import ClusterClosedError
from kafka_on_spark.service.quorum.ports import VoterCall
from kafka_on_spark.storage.calls.deadlines import THREADS_A_ROOT
from kafka_on_spark.storage.calls.side_by_side import ThreadsSideBySide
from tests.voter_fakes import key_of

MODULE = "kafka_on_spark.storage.calls.side_by_side"
LONG_MS = 30_000


@pytest.fixture
def side_by_side():
    made = ThreadsSideBySide(str)
    yield made
    made.close()


@pytest.fixture
def gate():
    made = threading.Event()
    yield made
    made.set()


def calls_of(*works):
    """A call on each of several voters."""
    return [VoterCall(key_of(node), work) for node, work in enumerate(works)]


def test_results_come_as_they_are_ready(side_by_side, gate):
    def slow():
        gate.wait(30)
        return "slow"

    results = side_by_side.run(calls_of(slow, lambda: "quick"), LONG_MS)

    assert next(results) == "quick"
    gate.set()
    assert list(results) == ["slow"]


def test_what_is_not_waited_for_goes_on(side_by_side, gate):
    done = threading.Event()

    def slow():
        gate.wait(30)
        done.set()

    for _ in side_by_side.run(calls_of(slow, lambda: "quick"), LONG_MS):
        break
    gate.set()

    assert done.wait(30)


def test_a_call_that_hangs_is_left_out_once_the_time_is_up(side_by_side, gate, monkeypatch):
    hang = lambda: gate.wait(30)  # noqa: E731
    results = side_by_side.run(calls_of(hang, lambda: "quick"), LONG_MS)
    now_s = monotonic()

    assert next(results) == "quick"
    monkeypatch.setattr(f"{MODULE}.monotonic", lambda: now_s + 2 * LONG_MS / 1000)
    assert list(results) == []
    monkeypatch.undo()
    assert list(side_by_side.run(calls_of(hang), 20)) == []
    assert list(side_by_side.run([], 0)) == []


def test_no_voter_waits_for_another_of_which_all_threads_hang(side_by_side, gate):
    hang = lambda: gate.wait(30)  # noqa: E731
    for _ in range(2 * THREADS_A_ROOT):
        assert list(side_by_side.run(calls_of(hang), 0)) == []

    found = side_by_side.run(calls_of(hang, lambda: "one", lambda: "two"), LONG_MS)

    assert sorted(islice(found, 2)) == ["one", "two"]


def test_once_closed_no_calls_are_taken(side_by_side):
    side_by_side.close()

    with pytest.raises(ClusterClosedError):
        list(side_by_side.run(calls_of(lambda: "never"), LONG_MS))
