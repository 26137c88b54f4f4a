"""Clocks of this machine."""

from kafka_on_spark.store import clock
from kafka_on_spark.store.clock import SystemClock, WakingClock


def test_a_waking_clock_never_goes_back_and_counts_the_machines_sleep(monkeypatch):
    waking = WakingClock()

    moments = [waking.monotonic_ms() for _ in range(3)]

    assert moments == sorted(moments)
    before_ms = SystemClock().monotonic_ms()
    assert waking.monotonic_ms() >= before_ms
    monkeypatch.setattr(clock, "_BOOT_TIME", None)
    assert abs(waking.monotonic_ms() - SystemClock().monotonic_ms()) < 60_000
