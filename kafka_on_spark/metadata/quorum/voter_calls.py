"""Calls on the voters' roots, several at once: who answers in time, who fails, who hangs.

A voter that can't be asked is left out of the answers: it counts for nothing. Why is kept, for
people. One error ends each call: a log that contradicts another (InconsistentClusterError).
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar, cast

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InconsistentClusterError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import Clock
from kafka_on_spark.metadata.quorum.voter_table import VoterKey, VoterSet
from kafka_on_spark.store.deadlines import SystemClock, begin

log = logging.getLogger(__name__)

T = TypeVar("T")

Ask = Callable[[VoterKey], T | None]

LEFT_CALLS_MAX: Final = 2
"""A voter on which so many calls were left behind is asked no more until one of them ends: a root
that hangs for hours piles up nothing."""


@dataclass(eq=False, slots=True)
class VoterCall(Generic[T]):
    """A call on a voter, from the moment that it is to be made, and what it returned or raised. It
    raises nothing itself: its caller may be gone.

    Attributes:
        ended: Is called once it has ended, in the same thread.
        is_left: Nobody waits for it any more.
    """

    key: VoterKey
    ask: Callable[[], T]
    began_ms: int = 0
    ended: "Callable[[VoterCall[Any]], None]" = lambda call: None
    is_left: bool = False
    found: T | None = None
    error: Exception | None = None

    def __call__(self) -> "VoterCall[T]":
        try:
            self.found = self.ask()
        except Exception as error:
            self.error = error
        finally:
            self.ended(self)
        return self


class SideBySide:
    """Makes calls on several voters at once, each in a thread of its voter's root: none waits for a
    call on another voter, however many hang. `root_of`: where a voter is.

    A caller may stop asking; calls that are not done then go on by themselves, and their results
    are lost. Not `concurrent.futures.as_completed`: it holds every future until the last is done.
    """

    def __init__(self, root_of: Callable[[VoterKey], str]) -> None:
        self._root_of = root_of

    def run(self, calls: Sequence[VoterCall[T]], timeout_ms: int) -> Iterator[VoterCall[T]]:
        """Yield `calls` as they end, for `timeout_ms` at most."""
        done: SimpleQueue[VoterCall[T]] = SimpleQueue()

        def make(call: VoterCall[T]) -> None:
            done.put(call())

        for call in calls:
            try:
                begin(self._root_of(call.key), partial(make, call))
            except KafkaStorageError:
                make(call)  # no call to this root begins, so this one fails at once
        clock = SystemClock()
        end_ms = clock.monotonic_ms() + timeout_ms
        for _ in calls:
            try:
                yield done.get(timeout=max(0, end_ms - clock.monotonic_ms()) / 1000)
            except Empty:
                return


class VoterCalls:
    """The voters, and the calls on them that are under way. Threads share it.

    Attributes:
        voters: The newest set that a leader's log has shown.
        is_alone: Whether that is one voter, which is waited for as long as its calls take.
        failures: Why a voter did not answer last; who answered is not in it.
    """

    def __init__(
        self, voters: VoterSet, side_by_side: SideBySide, clock: Clock, timeout_ms: int
    ) -> None:
        self.voters = voters
        self.is_alone = len(voters.voters) == 1
        self.failures: dict[VoterKey, KafkaOnSparkError] = {}
        self._side_by_side = side_by_side
        self.clock = clock
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._under_way: defaultdict[VoterKey, set[VoterCall[Any]]] = defaultdict(set)

    def each(
        self, keys: Iterable[VoterKey], ask: Ask[T], *, timeout_ms: int | None = None
    ) -> Iterator[T]:
        """Ask several voters at once; yield what `ask` returns, as it comes, for `timeout_ms` at
        most (None: for as long as a voter may take to answer).

        A caller may stop: what is under way goes on by itself."""
        asks = [(key, partial(ask, key)) for key in keys]
        if self.is_alone and len(asks) == 1:
            [(key, only)] = asks
            calls = iter([VoterCall(key, only, ended=self._ended)()])
        else:
            calls = self._ended_in_time(self._begun(asks), timeout_ms)
        for call in calls:
            error = call.error
            is_of_a_root = isinstance(error, KafkaOnSparkError) and not isinstance(
                error, InconsistentClusterError
            )
            if error is not None and not is_of_a_root:
                raise error
            if call.found is not None:
                yield call.found

    def in_time(self, key: VoterKey, ask: Callable[[], T], timeout_ms: int | None = None) -> T:
        """Return what `ask` returns, which calls voter `key` and no other. One of several voters is
        waited for as `each` waits; the only one for as long as its calls take.

        Raises:
            CommitOutcomeUnknownError: It does not answer in time: what it was asked goes on by
                itself, and what that puts may land.
            KafkaStorageError: Too many calls on it hang. It was not asked.
            And what `ask` raises.
        """
        if self.is_alone:
            return ask()
        calls = self._begun([(key, ask)])
        if not calls:
            raise hanging(key)
        for call in self._ended_in_time(calls, timeout_ms):
            if call.error is not None:
                raise call.error
            return cast(T, call.found)
        raise CommitOutcomeUnknownError(
            f"voter {key} does not answer in time: what it was asked may still be done"
        )

    def hangs(self, key: VoterKey) -> bool:
        """Return whether a call on a voter has been under way for longer than it is waited for."""
        if self.is_alone:
            return False
        before_ms = self.clock.monotonic_ms() - self._timeout_ms
        with self._lock:
            return any(each.began_ms <= before_ms for each in self._under_way[key])

    def troubled(self) -> list[VoterKey]:
        """Return the voters that did not answer when they were last asked, or hang."""
        return [key for key in self.voters.keys if key in self.failures or self.hangs(key)]

    def _begun(self, asks: Sequence[tuple[VoterKey, Callable[[], T]]]) -> list[VoterCall[T]]:
        """Count a call on each voter, but for those on which too many hang."""
        calls = []
        with self._lock:
            for key, ask in asks:
                left = sum(each.is_left for each in self._under_way[key])
                if self.is_alone or left < LEFT_CALLS_MAX:
                    calls.append(VoterCall(key, ask, self.clock.monotonic_ms(), self._ended))
                    self._under_way[key].add(calls[-1])
        return calls

    def _ended_in_time(
        self, calls: Sequence[VoterCall[T]], timeout_ms: int | None
    ) -> Iterator[VoterCall[T]]:
        try:
            limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
            yield from self._side_by_side.run(calls, limit_ms)
        except KafkaOnSparkError:  # no thread makes them
            with self._lock:
                for each in calls:
                    self._under_way[each.key].discard(each)
            raise
        finally:
            for each in calls:
                each.is_left = True

    def _ended(self, call: VoterCall[Any]) -> None:
        """Keep why a call failed, and report what is wrong: its caller may be gone."""
        key, error = call.key, call.error
        with self._lock:
            self._under_way[key].discard(call)
        if error is None:
            self.failures.pop(key, None)
        elif isinstance(error, InconsistentClusterError):
            log.error("voter %s: %s", key, error)
        elif not isinstance(error, KafkaOnSparkError):
            log.error("a call on voter %s failed", key, exc_info=error)
        elif not isinstance(error, CommitConflictError):  # after which it has answered
            log.debug("voter %s is left out: %s", key, error)
            self.failures[key] = error


def hanging(key: VoterKey) -> KafkaStorageError:
    return KafkaStorageError(
        f"voter {key} does not answer: calls to it hang, and no more begin until one of them"
        " returns"
    )
