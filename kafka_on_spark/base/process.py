"""What a process gives to what works in it: time, pauses of a loop and of its collector."""

import gc
import math
from collections.abc import Iterator
from itertools import count
from typing import Final, Protocol

DOUBLINGS_MAX: Final = 62
"""A root may be away for days: the exponent is bounded."""


class Clock(Protocol):
    """Time. No rule of safety rests on it."""

    def now_ms(self) -> int:
        """Return the wall clock, ms since 1970 UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Return a clock of this process that never goes back."""
        ...

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait."""
        ...


class _Paused:
    """A context. No generator: each read of the metadata log enters one, and most find nothing."""

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


def gc_paused() -> _Paused:
    """Pause the garbage collector where all that is made is kept, as in the replay of a large log:
    to look for cycles among millions of values takes a third of the time. It can go once a
    collector scans young values only.

    If two threads are in here, the first to leave resumes it, which costs the other one time only.
    """
    return _Paused()


def pause_ms(pause_count: int, first_ms: float, max_ms: float = math.inf) -> float:
    """Return the next pause after so many: twice as long as the last, up to `max_ms`, and never
    less than `first_ms`. No decision rests on it.

    Not tenacity's: its import takes longer than all of this folder's, in each of Spark's Python
    processes, and its loop would hold a caller's, which waits for other things too.
    """
    longer: float = first_ms * 2 ** min(pause_count, DOUBLINGS_MAX)
    return min(longer, max(first_ms, max_ms))


def pauses_ms(first_ms: float, max_ms: float = math.inf) -> Iterator[float]:
    """Yield one pause after the other, without end."""
    return (pause_ms(each, first_ms, max_ms) for each in count())
