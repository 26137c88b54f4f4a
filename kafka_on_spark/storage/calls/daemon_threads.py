"""Pools of daemon threads, for work that waits for roots.

A thread of `concurrent.futures.ThreadPoolExecutor` that hangs keeps its process from ending. A
process that ends waits a moment for these threads, and then ends without them.

The set of all pools is a module global: the exit of a process concerns every pool of the process.
It can go once Python's own executor has daemon threads.
"""

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from kafka_on_spark.errors import ClusterClosedError
from kafka_on_spark.storage.calls.deadlines import EXIT_SECONDS, no_thread_error
from kafka_on_spark.storage.calls.forks import FORKED, is_forked
from kafka_on_spark.storage.ledger.ledger import carried

T = TypeVar("T")
Arguments = ParamSpec("Arguments")

_Work = tuple[Future[Any], Callable[[], Any]] | None
"""None: no more work comes."""

_pools: Final["weakref.WeakSet[DaemonThreads]"] = weakref.WeakSet()


class DaemonThreads(Executor):
    """An executor of at most `count` daemon threads, each started when there is work for it."""

    def __init__(self, count: int, thread_name_prefix: str) -> None:
        self._count = count
        self._name = thread_name_prefix
        self._queue: SimpleQueue[_Work] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._is_shut = False
        # The threads of a pool that is garbage end.
        weakref.finalize(self, self._queue.put, None).atexit = False
        _pools.add(self)

    def submit(
        self, work: Callable[Arguments, T], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[T]:
        """Run `work` in one of the threads.

        Raises:
            ClusterClosedError: The pool is shut down, or this process was forked.
            KafkaStorageError: The process can't start a thread.
        """
        if is_forked():
            raise ClusterClosedError(FORKED)
        future: Future[T] = Future()
        charged = carried(lambda: work(*args, **kwargs))
        with self._lock:
            if self._is_shut:
                raise ClusterClosedError()
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._count:
                self._begin_thread()
            self._queue.put((future, charged))
        return future

    def _begin_thread(self) -> None:
        thread = threading.Thread(
            target=_work_through,
            args=(self._queue, self._idle),
            name=f"{self._name}_{len(self._threads)}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise no_thread_error() from error
            return  # the threads that run already do the work
        self._threads.append(thread)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; `wait` until all work taken is done."""
        with self._lock:
            self._is_shut = True
            if cancel_futures:
                self._cancel()
            self._queue.put(None)
        if wait:
            self.join(None)

    def _cancel(self) -> None:
        while not self._queue.empty():
            item = self._queue.get()
            if item is not None:
                item[0].cancel()

    def join(self, seconds: float | None) -> None:
        """Wait until its threads have ended, for at most `seconds`."""
        last = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(None if last is None else max(last - time.monotonic(), 0.0))


def _work_through(queue: "SimpleQueue[_Work]", idle: threading.Semaphore) -> None:
    while True:
        item = queue.get()
        if item is None:
            queue.put(None)  # for the next thread
            return
        future, work = item
        if future.set_running_or_notify_cancel():
            try:
                result = work()
            except BaseException as error:  # `Future.result` raises it in the caller
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
        del item, future, work  # an idle thread holds nothing
        idle.release()


def _finish() -> None:
    """Wait a moment for the work taken: the interpreter is about to end."""
    last = time.monotonic() + EXIT_SECONDS
    pools = list(_pools)
    for pool in pools:
        pool.shutdown(wait=False)
    for pool in pools:
        pool.join(max(last - time.monotonic(), 0.0))


atexit.register(_finish)
