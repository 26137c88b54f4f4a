"""Keeps count of the calls on voters that are under way: on one that hangs no more are begun.

Apart from the voters' tables, since it knows nothing of what is asked. A caller leaves calls behind
with its answer: those on a voter that the answer did not need, and on one that is too slow.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.ports.process import Clock
from kafka_on_spark.raft.voter_set import VoterKey

SLOW_CALLS_MAX: Final = 2
"""A voter that has so many calls under way for longer than an answer waits for it is asked no more
until one of them ends: a root that hangs for hours piles up nothing."""

LEFT_CALLS_MAX: Final = 4
"""The same for calls that were left behind, however short a time ago: each decision may leave one,
and so many are left long before the first of them is slow."""


@dataclass(eq=False, slots=True)
class CallUnderWay:
    """A call on a voter, from the moment that it is to be made.

    Attributes:
        key: The voter.
        began_ms: When it was to be made, by this process's own clock.
        is_left: Nobody waits for it any more.
        has_started: A thread makes it, or has made it.
        is_dropped: It is not to be made any more.
    """

    key: VoterKey
    began_ms: int
    is_left: bool = False
    has_started: bool = False
    is_dropped: bool = False


class CallsUnderWay:
    """The calls of a process that are under way. Threads share it.

    `timeout_ms`: one that takes longer is slow.
    """

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._calls: defaultdict[VoterKey, set[CallUnderWay]] = defaultdict(set)

    def begin(self, key: VoterKey, *, is_only: bool) -> CallUnderWay | None:
        """Count a call that is to be made; None: too many calls on this voter hang. The only voter
        is asked in any case: there is no other."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            calls = self._calls[key]
            left = sum(each.is_left for each in calls)
            is_stuck = self._slow(calls, now_ms) >= SLOW_CALLS_MAX or left >= LEFT_CALLS_MAX
            if is_stuck and not is_only:
                return None
            call = CallUnderWay(key, now_ms)
            calls.add(call)
            return call

    def has_slow(self, key: VoterKey) -> bool:
        """Return whether a call on this voter takes longer than an answer waits for it."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            return self._slow(self._calls[key], now_ms) > 0

    def _slow(self, calls: Iterable[CallUnderWay], now_ms: int) -> int:
        return sum(each.began_ms <= now_ms - self._timeout_ms for each in calls)

    def start(self, call: CallUnderWay) -> bool:
        """Note that a thread makes a call now; return False if it is not to be made any more."""
        with self._lock:
            call.has_started = not call.is_dropped
            return call.has_started

    def end(self, call: CallUnderWay) -> None:
        """Count a call no more."""
        with self._lock:
            self._calls[call.key].discard(call)

    def leave(self, calls: Iterable[CallUnderWay]) -> None:
        """Note that nobody waits for some calls any more; those that have ended may be among
        them."""
        with self._lock:
            for call in calls:
                call.is_left = True

    def drop(self, calls: Iterable[CallUnderWay]) -> None:
        """Have those of some calls not be made that no thread has started."""
        with self._lock:
            for call in calls:
                if not call.has_started:
                    call.is_dropped = True
                    self._calls[call.key].discard(call)
