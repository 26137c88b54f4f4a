"""Python's garbage collector paused where all that is made is kept: the one place that pauses it.

Replay of a large log creates millions of values, and all of them are kept. To look for cycles among
them, again and again, takes a third of the time. This ends when a collector that scans young values
only (as in free-threaded Python or a later release) makes the pause needless.
"""

import gc


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
    """Pause the collector. If two threads are in here, the first to leave resumes it, which costs
    the other one time only."""
    return _Paused()
