"""Makes several calls at once, in threads that outlive the answer.

A caller takes results as they come, and may stop: what is under way goes on. Not
`concurrent.futures.as_completed`: it holds every future until the last is done.
"""

from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TypeVar

from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads

T = TypeVar("T")


class ThreadsSideBySide:
    """A SideBySide of at most `thread_count` threads."""

    def __init__(self, thread_count: int) -> None:
        self._threads = DaemonThreads(thread_count, "voter")

    def run(self, calls: Sequence[Callable[[], T]], timeout_ms: int) -> Iterator[T]:
        """Yield the results of `calls` as they come, for `timeout_ms` at most.

        Raises:
            ClusterClosedError: The pool is shut down, or this process was forked.
            KafkaStorageError: The process can't start a thread.
        """
        if len(calls) == 1:
            yield calls[0]()
            return
        done: SimpleQueue[T] = SimpleQueue()
        for call in calls:
            self._threads.submit(_answer, done, call)
        last = monotonic() + timeout_ms / 1000
        for _ in calls:
            try:
                yield done.get(timeout=max(0.0, last - monotonic()))
            except Empty:
                return

    def close(self) -> None:
        """Take no more calls."""
        self._threads.shutdown(wait=False)


def _answer(done: "SimpleQueue[T]", call: Callable[[], T]) -> None:
    done.put(call())
