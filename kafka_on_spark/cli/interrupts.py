"""^C, SIGTERM and the end of the terminal for verbs that go on until they are told to end.

An interrupt ends a wait at once. What is under way is finished first, so that it has an answer; a
second interrupt ends that, too. A signal that is ignored stays so: nohup has SIGHUP ignored, and a
script SIGINT by what it starts with &. Source: HotSpot's shutdown signals. SIGHUP is never a second
one: the end of one terminal may send it twice, from the shell and from the system.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Takes these signals while it is entered; in another thread than the main one it does nothing.

    `then` is called by the first one, in place of an interrupt, and a second one ends the process
    at once, whatever hangs. It may not take a lock, which the main thread may hold.

    Attributes:
        code: The exit code of a process that the signal ends; None: none has come.
    """

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        self.code: int | None = None
        self._then = then
        self._is_waiting = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            taken = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
            self._before = {each: signal.signal(each, self._take) for each in taken}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within it, an interrupt raises at once; so does one that has come before.

        Raises:
            KeyboardInterrupt: One has come.
        """
        self._is_waiting = True
        try:
            if self.code is not None:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_waiting = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        is_second = self.code is not None
        if is_second and number == signal.SIGHUP:
            return
        self.code = 128 + number
        if self._then is not None:
            if is_second:
                os._exit(self.code)
            self._then()
        elif self._is_waiting or is_second:
            raise KeyboardInterrupt
