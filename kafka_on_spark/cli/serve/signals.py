"""The signals that tell a process to end: the first one asks for it, a second one makes it so.

SIGHUP is one, too, as it is for Kafka's JVM: the terminal was closed. Who has it ignored, as nohup
does, wants the process to go on. It is never a second one: the end of one terminal may send it
twice, from the shell and from the system.
"""

import os
import signal
from collections.abc import Callable


class Signals:
    """The signals that tell this process to end; a second one ends it at once."""

    def __init__(self) -> None:
        self._taken: list[int] = []
        self._then: Callable[[], None] = lambda: None

    def take(self, then: Callable[[], None] = lambda: None) -> None:
        """Take them from now on. The first one calls `then`, which may not wait for anything."""
        self._then = then
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN:
                signal.signal(each, self._take)

    def _take(self, number: int, frame: object) -> None:
        # Nothing that has a lock: the main thread may hold that very lock.
        if self._taken:
            if number == signal.SIGHUP:
                return
            os._exit(128 + number)
        self._taken.append(number)
        self._then()

    @property
    def name(self) -> str:
        """Which one was sent; empty: none."""
        return signal.Signals(self._taken[0]).name if self._taken else ""
