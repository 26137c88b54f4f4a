"""What the system gives a process beside files: clocks, ids, random numbers, pauses."""

import gc
import math
import random
import time
from collections.abc import Iterator
from itertools import count
from typing import Final
from uuid import uuid4

from kafka_on_spark.base.ids import IdSource

_BOOT_TIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """A Clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def precise_ms(self) -> float:
        """Return the same clock with its fractions, to measure what is short."""
        return time.monotonic_ns() / 1_000_000

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)


class WakingClock(SystemClock):
    """A clock whose durations count the time that the machine slept, where the system can tell: a
    process that slept with it learns that others may have gone on."""

    def monotonic_ms(self) -> int:
        if _BOOT_TIME is None:
            return super().monotonic_ms()
        return time.clock_gettime_ns(_BOOT_TIME) // 1_000_000


def processor_ms() -> float:
    """Return the processor time that this process has had, of all its threads."""
    return time.process_time_ns() / 1_000_000


def new_uuid() -> str:
    return uuid4().hex


ID_SOURCE: Final = IdSource(new_uuid=new_uuid, random_below=random.randrange)
"""Gives the ids and random numbers of this process's decisions."""

DOUBLINGS_MAX: Final = 62
"""A root may be away for days: the exponent is bounded."""


def pause_ms(pause_count: int, first_ms: float, max_ms: float = math.inf) -> float:
    """Return the next pause after so many: twice as long as the last, up to `max_ms`, and never
    less than `first_ms`. No decision rests on it.

    Not tenacity's: its import takes longer than all of `base`'s, in each of Spark's Python
    processes, and its loop would hold a caller's, which waits for other things too.
    """
    longer: float = first_ms * 2 ** min(pause_count, DOUBLINGS_MAX)
    return min(longer, max(first_ms, max_ms))


def pauses_ms(first_ms: float, max_ms: float = math.inf) -> Iterator[float]:
    """Yield one pause after the other, without end."""
    return (pause_ms(each, first_ms, max_ms) for each in count())


class CollectorPaused:
    """A context in which the garbage collector pauses, where all that is made is kept, as in the
    replay of a large log: to look for cycles among millions of values takes a third of the time. It
    can go once a collector scans young values only.

    If two threads are in one, the first to leave resumes it, which costs the other one time only.
    """

    # No generator: each read of the metadata log enters one, and most find nothing.
    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()
