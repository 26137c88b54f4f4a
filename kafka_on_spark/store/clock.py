"""What the system gives a process beside files: clocks for the Clock port, ids, random numbers."""

import random
import time
from typing import Final
from uuid import uuid4

from kafka_on_spark.base.ids import IdSource

_BOOT_TIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """A Clock of this machine."""

    def now_ms(self) -> int:
        """Return the wall clock, ms since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the process's monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def precise_ms(self) -> float:
        """Return the same clock with its fractions, to measure what is short."""
        return time.monotonic_ns() / 1_000_000

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)


def processor_ms() -> float:
    """Return the processor time that this process has had, of all its threads."""
    return time.process_time_ns() / 1_000_000


class WakingClock(SystemClock):
    """A clock whose durations count the time that the machine slept, where the system can tell: a
    process that slept with it learns that others may have gone on."""

    def monotonic_ms(self) -> int:
        if _BOOT_TIME is None:
            return super().monotonic_ms()
        return time.clock_gettime_ns(_BOOT_TIME) // 1_000_000


def new_uuid() -> str:
    return uuid4().hex


ID_SOURCE: Final = IdSource(new_uuid=new_uuid, random_below=random.randrange)
"""Gives the ids and random numbers of this process's decisions."""
