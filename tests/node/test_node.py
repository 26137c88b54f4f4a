"""The parts of a process's node: each made once, and closed with it."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from kafka_on_spark.base.errors import ClusterClosedError
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.node import Maintenance, Node, Tasks
from kafka_on_spark.store.counts import Counts
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.storage_options import StorageOptions
from tests.fakes import FakeClock, MemoryMetadataLog


@pytest.fixture
def node():
    clock, options = FakeClock(), StorageOptions()
    return Node(
        MetadataService(MemoryMetadataLog(), clock, random=lambda: 0.0),
        Tasks(Worker(options), DaemonThreads(2, "task")),
        options=options,
        controller_id="here-1",
        counts=Counts(clock.monotonic_ms),
        maintenance=Maintenance(),
        host="here",
        caller="process 1",
    )


class Closed:
    def __init__(self, node):
        self.order = node.part(Order)

    def close(self):
        self.order.closed.append(type(self).__name__)


class Order:
    def __init__(self, node):
        self.closed = []


class Second(Closed):
    """Closes, too."""


class First(Closed):
    def __init__(self, node):
        super().__init__(node)
        self.second = node.part(Second)


def test_threads_that_ask_for_parts_at_once_get_the_same_each_made_once(node):
    both_ask = Barrier(2)

    def ask(part):
        both_ask.wait(60)
        return node.part(part)

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(ask, (First, Second))

    assert first.second is second
    assert node.part(First) is first


def test_a_part_that_nobody_has_asked_for_is_not_made(node):
    assert node.made(First) is None
    made = node.part(First)
    assert node.made(First) is made


def test_parts_are_closed_before_those_that_they_rest_on(node):
    first = node.part(First)

    node.close()

    assert first.order.closed == ["First", "Second"]


def test_a_closed_node_does_nothing_more(node):
    node.close()

    with pytest.raises(ClusterClosedError):
        node.metadata.catch_up()
    with pytest.raises(ClusterClosedError):
        node.tasks.run(lambda order, worker: order, [1, 2])
