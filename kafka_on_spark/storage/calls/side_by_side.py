"""Makes several calls on voters at once, in threads that outlive the answer.

A caller takes results as they come, and may stop: what is under way goes on. Not
`concurrent.futures.as_completed`: it holds every future until the last is done. Each voter has
threads of its own: those of one that hangs are all taken, and nobody else waits for them.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final, TypeVar

from kafka_on_spark.errors import ClusterClosedError
from kafka_on_spark.raft.voter_set import VoterKey
from kafka_on_spark.service.quorum.ports import VoterCall
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads
from kafka_on_spark.storage.calls.deadlines import begin

T = TypeVar("T")

IN_TURN: Final = "metadata roots"
"""What calls in turn are made on, until the first of them says which root it is."""


class ThreadsSideBySide:
    """A SideBySide of at most `thread_count` threads a voter. `is_local`: whether its root is a
    disk of this machine."""

    def __init__(
        self, thread_count: int, is_local: Callable[[VoterKey], bool] = lambda key: False
    ) -> None:
        self._thread_count = thread_count
        self._is_local = is_local
        self._lock = threading.Lock()
        self._threads: dict[VoterKey, DaemonThreads] = {}
        self._is_closed = False

    def run(self, calls: Sequence[VoterCall[T]], timeout_ms: int) -> Iterator[T]:
        """Yield the results of `calls` as they come, for `timeout_ms` at most.

        Raises:
            ClusterClosedError: The pool is shut down, or this process was forked.
            KafkaStorageError: The process can't start a thread.
        """
        done: SimpleQueue[T] = SimpleQueue()
        for call in calls:
            self._threads_of(call.key).submit(_answer, done, call)
        last = monotonic() + timeout_ms / 1000
        for _ in calls:
            try:
                yield done.get(timeout=max(0.0, last - monotonic()))
            except Empty:
                return

    def is_quick(self, key: VoterKey) -> bool:
        """Return whether a look at a voter is a call or two on a disk of this machine."""
        return self._is_local(key)

    def run_in_turn(self, calls: Sequence[VoterCall[T]], timeout_ms: int) -> list[T] | None:
        """Return the results of `calls`, made one after the other in one thread; None: they take
        longer than `timeout_ms`.

        It is a thread of those that calls on roots run in: so none of these calls begins another.

        Raises: as `run`.
        """
        done: SimpleQueue[list[T]] = SimpleQueue()
        begin(IN_TURN, partial(_answer_all, done, calls))
        try:
            return done.get(timeout=timeout_ms / 1000)
        except Empty:
            return None

    def _threads_of(self, key: VoterKey) -> DaemonThreads:
        with self._lock:
            if self._is_closed:
                raise ClusterClosedError()
            if key not in self._threads:
                self._threads[key] = DaemonThreads(self._thread_count, "voter")
            return self._threads[key]

    def close(self) -> None:
        """Take no more calls."""
        with self._lock:
            self._is_closed = True
            for threads in self._threads.values():
                threads.shutdown(wait=False)


def _answer(done: "SimpleQueue[T]", call: VoterCall[T]) -> None:
    done.put(call())


def _answer_all(done: "SimpleQueue[list[T]]", calls: Sequence[VoterCall[T]]) -> None:
    done.put([call() for call in calls])
