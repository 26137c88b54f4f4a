"""Several calls at once, whose caller takes what comes first."""

import threading

import pytest

from kafka_on_spark.storage.calls.side_by_side import ThreadsSideBySide

LONG_MS = 30_000


@pytest.fixture
def side_by_side():
    made = ThreadsSideBySide(4)
    yield made
    made.close()


def test_results_come_as_they_are_ready(side_by_side):
    gate = threading.Event()

    def slow():
        gate.wait(30)
        return "slow"

    results = side_by_side.run([slow, lambda: "quick"], LONG_MS)

    assert next(results) == "quick"
    gate.set()
    assert list(results) == ["slow"]


def test_what_is_not_waited_for_goes_on(side_by_side):
    gate, done = threading.Event(), threading.Event()

    def slow():
        gate.wait(30)
        done.set()

    for _ in side_by_side.run([slow, lambda: "quick"], LONG_MS):
        break
    gate.set()

    assert done.wait(30)


def test_a_call_that_hangs_is_left_out_once_the_time_is_up(side_by_side):
    gate = threading.Event()

    assert list(side_by_side.run([lambda: gate.wait(30), lambda: "quick"], 200)) == ["quick"]
    gate.set()


def test_a_single_call_needs_no_thread(side_by_side):
    assert list(side_by_side.run([threading.get_ident], 0)) == [threading.get_ident()]
    assert list(side_by_side.run([], 0)) == []
