"""The future of a sent record: Python's, with a condition that the futures of one append share.

A condition for each future would be most of the cost of `send`: it is made of ten objects, which
the garbage collector visits again and again. So this class knows the attributes of Python's
`Future`; a test has `wait`, `as_completed` and asyncio use it.
"""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition
from typing import Any, Final, TypeVar

T = TypeVar("T")

_RUNNING: Final = "RUNNING"


class SentFuture(Future[T]):
    """A future that runs from the start, so it can't be cancelled."""

    def __init__(self, condition: Condition) -> None:
        # Instead of `Future.__init__`, which makes a condition.
        self._condition = condition
        self._state = _RUNNING
        self._result = None
        self._exception = None
        self._waiters = []
        self._done_callbacks: Any = ()

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have `fn` called with this future at its end; at once, if it has ended."""
        with self._condition:
            self._done_callbacks = self._done_callbacks or []
            super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> T:
        """Return the result; wait for it for at most `timeout` seconds.

        Raises:
            TimeoutError: There is none yet.
            And the error that the future has got.
        """
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error, or None; wait for it for at most `timeout` seconds.

        Raises:
            TimeoutError: There is neither a result nor an error yet.
        """
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """Wait for this future: another one's end also wakes those that wait."""
        with self._condition:
            self._condition.wait_for(self.done, timeout)
