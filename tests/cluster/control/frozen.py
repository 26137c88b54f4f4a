"""Processes that stop in the middle of a call to a table, and go on when the world has moved on.

What SIGSTOP, a long garbage collection or a network that hangs does to a process, done to one
thread: it stands before a port call, with all that it has read and decided, until it is thawed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock
from typing import Any

from kafka_on_spark.metadata.records import ControllerRecord
from tests.nodes import worker_with

WAIT_S = 300
"""Longer than anything here takes on the busiest machine: who waits longer has a bug to report."""


class Frost:
    """Stops the first caller that reaches the call named `at`."""

    def __init__(self, at: str) -> None:
        self.at = at
        self._lock = Lock()
        self._is_spent = False
        self.reached = Event()
        self.thawed = Event()

    def stand(self, call: str) -> None:
        """Wait here if this is the call, and nobody was stopped before."""
        with self._lock:
            if call != self.at or self._is_spent:
                return
            self._is_spent = True
        self.reached.set()
        assert self.thawed.wait(WAIT_S), f"nobody thawed {call}"


class FrozenLog:
    """A ReplicaLog whose callers may be stopped; a commit is called by its operation's name."""

    def __init__(self, log: Any, frost: Frost, broker_id: int) -> None:
        self._log, self._frost, self._broker_id = log, frost, broker_id

    def load(self) -> Any:
        self._frost.stand(f"load {self._broker_id}")
        return self._log.load()

    def commit(self, state: Any, change: Any) -> Any:
        self._frost.stand(f"{change.operation} {self._broker_id}")
        return self._log.commit(state, change)

    def may_need_checkpoint(self) -> bool:
        return self._log.may_need_checkpoint()

    def maintain(self) -> None:
        self._log.maintain()


class FrozenStore:
    def __init__(self, store: Any, frost: Frost) -> None:
        self._store, self._frost = store, frost

    def open(self, address: Any) -> FrozenLog:
        return FrozenLog(self._store.open(address), self._frost, address.broker_id)

    def open_uncached(self, address: Any) -> FrozenLog:
        return FrozenLog(self._store.open_uncached(address), self._frost, address.broker_id)

    def create(self, address: Any, **fence: Any) -> None:
        self._store.create(address, **fence)


class FrozenSegments:
    def __init__(self, segments: Any, frost: Frost) -> None:
        self._segments, self._frost = segments, frost

    def copy(self, *arguments: Any, **named: Any) -> None:
        self._frost.stand("copy")
        self._segments.copy(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._segments, name)


def freeze_appends(cluster: Any, frost: Frost) -> None:
    """Have a cluster's appends stopped by `frost`."""
    node = cluster._node
    node.tasks.worker = worker_with(node, lambda replicas: FrozenStore(replicas, frost))


def freeze_decisions(cluster: Any, frost: Frost) -> None:
    """Have a cluster's decisions stopped by `frost`, at "decide", before they are committed: claims
    and renewals of its lease pass, however many a slow machine makes of them."""
    log = cluster._metadata.log
    append = log.append

    def stopped(records: Any, *arguments: Any, **named: Any) -> Any:
        if not all(isinstance(each, ControllerRecord) for each in records):
            frost.stand("decide")
        return append(records, *arguments, **named)

    log.append = stopped


@contextmanager
def frozen(frost: Frost, work: Callable[[], Any]) -> Any:
    """Run `work` until it is stopped; in the block the world moves on; give its future."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work)
        try:
            while not frost.reached.wait(0.01):
                assert not future.done(), f"never came to {frost.at}: {future.result()}"
            yield future
        finally:
            frost.thawed.set()
