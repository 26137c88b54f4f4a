"""The node of a process whose tasks a test does in its own way."""

from types import SimpleNamespace

from kafka_on_spark.base.ids import IdSource
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.counts import Counts
from kafka_on_spark.store.storage_options import StorageOptions


class GivenTasks:
    """Does tasks by the functions of orders that are `given` for them; all others in this process,
    one after the other, by `worker`."""

    executors = "given"

    def __init__(self, worker, given):
        self.worker = worker
        self.given = given

    def run(self, task, orders, *, few=0):
        if task in self.given:
            return self.given[task](orders)
        return [task(order, self.worker) for order in orders]

    run_here = run

    def run_or_lose(self, task, orders, *, on_each=False):
        return [] if on_each else self.run(task, orders)


class _Worker:
    """A worker whose replicas are others."""

    def __init__(self, worker, replicas):
        self._worker = worker
        self.replicas = replicas

    def __getattr__(self, name):
        return getattr(self._worker, name)


def worker_with(node, replicas):
    """Return a node's worker that opens its tables by `replicas`, which wraps its own."""
    vars(node).pop("replicas", None)  # it keeps those of the worker that it had
    return _Worker(node.tasks.worker, replicas(node.tasks.worker.replicas))


class GivenNode(Node):
    """A node whose commits take `timeout_ms` at most, whatever its cluster says."""

    timeout_ms = 1000


def node_of(
    metadata,
    clock,
    *,
    given=None,
    parts=None,
    random_below=lambda below: 0,
    new_uuid=lambda: "another",
    timeout_ms=1000,
    **worker,
):
    """Return a node. `given`: what does its tasks; `worker`: what tasks find in this process."""
    worker = SimpleNamespace(**{"clock": clock, **worker})
    node = GivenNode(
        metadata,
        GivenTasks(worker, given or {}),
        options=StorageOptions(),
        controller_id="here-1",
        counts=Counts(lambda: 0.0),
        maintenance=SimpleNamespace(
            add=lambda works: None, promise=lambda key, work: None, close=lambda: None
        ),
        ids=IdSource(new_uuid=new_uuid, random_below=random_below),
        random=lambda: 0.0,
        host="here",
        caller="process 1",
        clock=clock,
        parts=parts,
    )
    node.timeout_ms = timeout_ms
    return node
