"""Work that is due after an answer waits once, however often it is asked for."""

import pytest

from kafka_on_spark.base.errors import ClusterClosedError
from kafka_on_spark.node.due_work import DueWork
from kafka_on_spark.store.daemon_threads import DaemonThreads

WAIT_S = 30


@pytest.fixture
def threads():
    threads = DaemonThreads(1, "due")
    yield threads
    threads.shutdown()


def wait_for(threads):
    threads.submit(lambda: None).result(WAIT_S)


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
