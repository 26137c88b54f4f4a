"""Work that is due after an answer waits once, however often it is asked for."""

import threading

import pytest

from kafka_on_spark.errors import ClusterClosedError
from kafka_on_spark.spark.run.due_work import DueWork
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads

WAIT_S = 30


class Gate:
    """Work that waits until it is let through, and notes that it ran."""

    def __init__(self):
        self.begun, self.is_open = threading.Event(), threading.Event()
        self.runs = []

    def __call__(self):
        self.runs.append("gate")
        self.begun.set()
        assert self.is_open.wait(WAIT_S)


@pytest.fixture
def threads():
    threads = DaemonThreads(1, "due")
    yield threads
    threads.shutdown()


def wait_for(threads):
    threads.submit(lambda: None).result(WAIT_S)


def test_work_that_waits_is_not_queued_again(threads):
    gate, due = Gate(), DueWork(threads)
    due.add({"gate": gate})
    assert gate.begun.wait(WAIT_S)

    for _ in range(1000):
        due.add({"a": lambda: gate.runs.append("a"), "b": lambda: gate.runs.append("b")})
    assert len(threads._waiting) == 1
    gate.is_open.set()
    wait_for(threads)

    assert gate.runs == ["gate", "a", "b"]


def test_work_that_is_asked_for_while_it_runs_runs_once_more(threads):
    gate, due = Gate(), DueWork(threads)
    due.add({"gate": gate})
    assert gate.begun.wait(WAIT_S)

    due.add({"gate": gate})
    due.add({"gate": gate})
    gate.is_open.set()
    wait_for(threads)

    assert gate.runs == ["gate", "gate"]


def test_failure_leaves_the_rest_to_be_done(threads, caplog):
    def fail():
        raise ValueError("no checkpoint today")

    runs, due = [], DueWork(threads)
    due.add({"a": fail, "b": lambda: runs.append("b")})
    wait_for(threads)
    due.add({"a": lambda: runs.append("a")})
    wait_for(threads)

    assert runs == ["b", "a"]
    assert "no checkpoint today" in caplog.text


def test_closed_pool_takes_nothing_and_nobody_fails():
    threads, runs = DaemonThreads(1, "due"), []
    due = DueWork(threads)
    threads.shutdown()
    with pytest.raises(ClusterClosedError):
        threads.submit(lambda: None)

    due.add({"a": lambda: runs.append("a")})

    assert runs == []
