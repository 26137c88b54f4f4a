"""Time that passes when a test says so, for all of the product in this process, files on disks too.

The clocks go on by themselves as well, so that budgets of time are spent as they are in a real run.
"""

import os
import threading
import time
from typing import Any

from kafka_on_spark.metadata import temporaries
from kafka_on_spark.metadata.quorum import voter_log
from kafka_on_spark.store import local_files
from kafka_on_spark.store.deadlines import SystemClock
from kafka_on_spark.store.delta import delta_log

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Killed(BaseException):
    """The process is dead: it does nothing more, its own cleaning up neither."""


class SimulatedTime:
    """The clocks of this process, and of its disks."""

    def __init__(self) -> None:
        self._began_ms = time.time_ns() // 1_000_000
        self._began_ns = time.monotonic_ns()
        self._passed_ms = 0.0
        self._lock = threading.Lock()
        self.kill_after: int | None = None

    def now_ms(self) -> int:
        return self._began_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return (time.monotonic_ns() - self._began_ns) // 1_000_000 + int(self._passed_ms)

    def pass_ms(self, duration_ms: float) -> None:
        with self._lock:
            self._passed_ms += duration_ms

    def count_change(self) -> None:
        with self._lock:
            if self.kill_after is None:
                return
            if self.kill_after == 0:
                raise Killed
            self.kill_after -= 1

    def install(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(SystemClock, "now_ms", lambda _: self.now_ms())
        monkeypatch.setattr(SystemClock, "monotonic_ms", lambda _: self.monotonic_ms())
        monkeypatch.setattr(SystemClock, "sleep_ms", lambda _, duration: self.pass_ms(duration))
        monkeypatch.setattr(temporaries, "time", _Clock(self))
        monkeypatch.setattr(delta_log, "time", _Clock(self))
        monkeypatch.setattr(voter_log, "time", _Clock(self))
        monkeypatch.setattr(local_files, "os", _Disks(self))


class _Clock:
    sleep = staticmethod(time.sleep)

    def __init__(self, clock: SimulatedTime) -> None:
        self._clock = clock

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    def time_ns(self) -> int:
        return self._clock.now_ms() * 1_000_000


class _Disks:
    """The functions of `os`, for files that get the simulated time, and a process that may die."""

    _CHANGES = ("link", "rename", "unlink", "mkdir", "rmdir", "write", "fsync")

    def __init__(self, clock: SimulatedTime) -> None:
        self._clock = clock
        self._written: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        call = getattr(os, name)
        if name not in self._CHANGES:
            return call

        def counted(*arguments: Any, **named: Any) -> Any:
            self._clock.count_change()
            return call(*arguments, **named)

        return counted

    def open(self, path: str, flags: int, *arguments: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            self._clock.count_change()
        descriptor = os.open(path, flags, *arguments, **named)
        if flags & os.O_CREAT:
            self._written.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        if descriptor in self._written:
            self._written.discard(descriptor)
            now_ns = self._clock.now_ms() * 1_000_000
            os.utime(descriptor, ns=(now_ns, now_ns))
        os.close(descriptor)
