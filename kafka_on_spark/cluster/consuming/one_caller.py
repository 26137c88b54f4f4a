"""Keeps other threads out of an object that is for one at a time, as Kafka's consumer does."""

import threading
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager

from kafka_on_spark.errors import ClusterClosedError, InvalidRequestError
from kafka_on_spark.ids import PartitionKey, TopicPartition
from kafka_on_spark.storage.calls.forks import FORKED, is_forked

OnPartitions = Callable[[list[TopicPartition]], None]
"""Called in a poll, with partitions that come or go."""

NamesOf = Callable[[Iterable[PartitionKey]], list[TopicPartition]]


class OneCaller:
    """The thread that is in a call. A callback may make calls in the middle of its caller's.

    A thread never keeps itself out: ^C may end a call that has the lock and no block yet that gives
    it back, and the thread must be able to close. Source: KafkaConsumer.acquire.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._called_back: int | None = None

    def telling(
        self, callback: OnPartitions | None, names_of: NamesOf
    ) -> Callable[[Set[PartitionKey]], None]:
        """Return what calls `callback` with the names of partitions, if they have any."""

        def tell(keys: Set[PartitionKey]) -> None:
            names = [] if callback is None else names_of(keys)
            if callback is None or not names:
                return
            self._called_back = threading.get_ident()
            try:
                callback(names)
            finally:
                self._called_back = None

        return tell

    @contextmanager
    def alone(self, *, in_callbacks: bool) -> Iterator[None]:
        """Keep other threads out. `in_callbacks`: a callback may do this.

        Raises:
            ClusterClosedError: This process was forked.
            InvalidRequestError: Another thread is in a call, or a callback may not do this.
        """
        if is_forked():
            raise ClusterClosedError(FORKED)
        if self._called_back == threading.get_ident():
            if not in_callbacks:
                raise InvalidRequestError(
                    "a callback about partitions can't ask for records or close the consumer, which"
                    " is in the middle of that: do it after the poll"
                )
            yield
            return
        if not self._lock.acquire(blocking=False):
            raise InvalidRequestError(
                "another thread is in a call of this consumer, which is for one thread at a time:"
                " make a consumer for each thread, or end the call by wakeup()"
            )
        try:
            yield
        finally:
            self._lock.release()
