"""Adapts the system's clocks to the Clock port."""

import time


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
        """Wait."""
        time.sleep(duration_ms / 1000)
