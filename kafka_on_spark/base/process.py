"""What a process gives to what works in it: time, and a pause of its collector."""

import gc
from typing import Protocol


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
