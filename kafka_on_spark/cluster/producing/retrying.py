"""The threads that try again what has no answer after an append's first try.

What one first try has left of partitions that need the same brokers has a thread of its own until
all of it has answers: what can go on soon must not wait for what can't, nor share the time of its
tries. So threads are as many as there are
muted partitions, at most, and not more than `THREADS_MAX`: then one of them takes more between its
tries.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from kafka_on_spark.controller.pace.back_off import pauses_ms
from kafka_on_spark.service.append.produce.delivery import Delivery, PendingPart
from kafka_on_spark.storage.calls.clock import SystemClock

PAUSE_MS_MIN: Final = 100
PAUSE_MS_MAX: Final = 1_000
"""Between tries. Source: retry.backoff.ms, retry.backoff.max.ms."""

THREADS_MAX: Final = 16
"""Of one producer: more causes at once for which partitions are stuck are hardly met."""

Retry = Callable[[Delivery], None]
"""Makes one try, and raises nothing."""

_clock: Final = SystemClock()


class Retriers:
    """Threads of one producer, each with what it tries again.

    `wake` has the sender's lock. Only a thread has the sender's `Retry`, while it runs: kept here,
    it would keep a producer that is done with until garbage is collected.

    Attributes:
        threads: Those that are at work, have been, or are about to begin.
    """

    def __init__(self, wake: threading.Condition) -> None:
        self._wake = wake
        self._left: list[PendingPart] = []
        self._count = 0
        self._is_cut_off = False
        self.threads: list[threading.Thread] = []

    def begin(self, parts: Sequence[PendingPart], retry: Retry) -> None:
        """Have `parts` tried again, in another thread; in this one if the process has no other."""
        with self._wake:
            if self._count == THREADS_MAX:
                self._left += parts
                return
            self._count += 1
        # Without the lock: a collection of garbage in a thread that starts may take it.
        delivery = Delivery(parts)
        if self._starts(delivery, retry):
            return
        with self._wake:
            if self._count > 1:
                self._count -= 1
                self._left += parts
                return
        self._run(delivery, retry)

    def _starts(self, delivery: Delivery, retry: Retry) -> bool:
        thread = threading.Thread(
            target=self._run, args=(delivery, retry), name="producer-retries", daemon=True
        )
        others = [each for each in self.threads if each.is_alive()]
        self.threads = [*others, thread]  # before it runs callbacks, which may ask
        try:
            thread.start()
        except RuntimeError:
            self.threads = others
            return False
        return True

    def cut_off(self) -> None:
        """Try nothing again from now on. The caller has the lock."""
        self._is_cut_off = True
        self._wake.notify_all()

    def _run(self, delivery: Delivery, retry: Retry) -> None:
        pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
        while self._has_work(delivery, next(pauses)):
            retry(delivery)

    def _has_work(self, delivery: Delivery, pause_ms: float) -> bool:
        """Pause until the next try, and return True; False if there is none."""
        with self._wake:
            delivery.add(self._left)
            self._left = []
            if delivery.parts:
                pause_ms = min(pause_ms, delivery.left_ms(_clock.monotonic_ms()))
                self._wake.wait_for(lambda: self._is_cut_off, pause_ms / 1000)
            if delivery.parts and not self._is_cut_off:
                return True
            self._count -= 1
            return False
