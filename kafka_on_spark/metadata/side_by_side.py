"""Makes calls on several voters at once, each in a thread of its voter's root.

A caller takes results as they come, and may stop: what is under way goes on. Not
`concurrent.futures.as_completed`: it holds every future until the last is done.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TypeVar

from kafka_on_spark.base.errors import ClusterClosedError, KafkaStorageError
from kafka_on_spark.metadata.quorum.ports import VoterCall
from kafka_on_spark.metadata.quorum.voter_set import VoterKey
from kafka_on_spark.store.deadlines import begin

T = TypeVar("T")


class ThreadsSideBySide:
    """A SideBySide. `root_of`: where a voter is."""

    def __init__(self, root_of: Callable[[VoterKey], str]) -> None:
        self._root_of = root_of
        self._is_closed = False

    def run(self, calls: Sequence[VoterCall[T]], timeout_ms: int) -> Iterator[T]:
        """Yield the results of `calls` as they come, for `timeout_ms` at most.

        Raises:
            ClusterClosedError: The cluster is closed, or this process was forked.
        """
        if self._is_closed:
            raise ClusterClosedError()
        done: SimpleQueue[T] = SimpleQueue()
        for call in calls:
            work = partial(_answer, done, call)
            try:
                begin(self._root_of(call.key), work)
            except KafkaStorageError:
                work()  # no call to this root begins, so this one fails at once
        last = monotonic() + timeout_ms / 1000
        for _ in calls:
            try:
                yield done.get(timeout=max(0.0, last - monotonic()))
            except Empty:
                return

    def close(self) -> None:
        """Take no more calls."""
        self._is_closed = True


def _answer(done: "SimpleQueue[T]", call: VoterCall[T]) -> None:
    done.put(call())
