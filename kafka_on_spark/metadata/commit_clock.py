"""The time that a process stamps its commits and appends with: its own, held to two other clocks.

A process whose clock is wrong decides as any other: nothing is refused for its time. But it gives
its time to nobody else: `stamp_ms` says how. What the root's clock says costs no request on S3,
which tells it with each answer; on a disk it is the time of a small file.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from kafka_on_spark.base.process import Clock
from kafka_on_spark.metadata.records import stamp_ms, too_old_by_ms

log = logging.getLogger(__name__)

ASK_AGAIN_MS: Final = 1000
"""A process whose clock is wrong asks the root again at most so often: `send` asks for the time of
each record. One that no root has answered asks each time: its own clock alone would stamp."""


class CommitClock:
    """A Clock whose wall clock says what `stamp_ms` says. Threads may share it.

    `ask_root_ms` returns the time of the metadata root; None: it tells none now. `newest_ms`
    returns that of the newest commit, and `ahead_max_ms` the setting. Between two questions the
    root's time goes on by the monotonic clock.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        ask_root_ms: Callable[[], int | None],
        newest_ms: Callable[[], int],
        ahead_max_ms: Callable[[], int],
    ) -> None:
        self._clock = clock
        self._ask_root_ms = ask_root_ms
        self._newest_ms = newest_ms
        self._ahead_max_ms = ahead_max_ms
        self._lock = threading.Lock()
        self._root_at_zero_ms: int | None = None  # the root's time minus the monotonic clock's
        self._asked_at_ms: int | None = None
        self._is_told = False

    def now_ms(self) -> int:
        """Return the time of what is committed or appended now."""
        own_ms, ahead_max_ms = self._clock.now_ms(), self._ahead_max_ms()
        root_ms = self._root_ms(own_ms, ahead_max_ms)
        now_ms = stamp_ms(own_ms, root_ms, self._newest_ms(), ahead_max_ms)
        if root_ms is not None and abs(now_ms - own_ms) > ahead_max_ms and not self._is_told:
            self._is_told = True
            self._tell(own_ms - root_ms)
        return now_ms

    def too_old_by_ms(self) -> int | None:
        """Return the time by which what the metadata alone knows is too old; None: the metadata
        root tells none now, so nothing is."""
        own_ms, now_ms = self._clock.now_ms(), self.now_ms()
        root_ms = self._root_ms(own_ms, self._ahead_max_ms())
        return None if root_ms is None else too_old_by_ms(own_ms, root_ms, now_ms)

    def monotonic_ms(self) -> int:
        """Return the process's monotonic clock."""
        return self._clock.monotonic_ms()

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait."""
        self._clock.sleep_ms(duration_ms)

    def _root_ms(self, own_ms: int, ahead_max_ms: int) -> int | None:
        """Return the root's time, which is asked for at first, and where both clocks differ: which
        of the two is wrong, or has been set right since, the root says."""
        monotonic_ms = self._clock.monotonic_ms()
        zero_ms, asked_ms = self._root_at_zero_ms, self._asked_at_ms
        if zero_ms is not None and abs(own_ms - zero_ms - monotonic_ms) <= ahead_max_ms:
            return zero_ms + monotonic_ms
        with self._lock:
            if zero_ms is None or asked_ms is None or monotonic_ms - asked_ms >= ASK_AGAIN_MS:
                self._asked_at_ms = monotonic_ms
                root_ms = self._ask_root_ms()
                if root_ms is not None:
                    self._root_at_zero_ms = root_ms - monotonic_ms
            zero_ms = self._root_at_zero_ms
        return None if zero_ms is None else zero_ms + monotonic_ms

    def _tell(self, ahead_ms: int) -> None:
        log.warning(
            "the clock of this process is %d s %s that of the metadata root: what this process"
            " commits and appends has the root's time, or that of the newest commit; set the clock"
            " right, this one or the root's",
            abs(ahead_ms) // 1000,
            "ahead of" if ahead_ms > 0 else "behind",
        )
