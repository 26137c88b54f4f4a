"""Clocks of this machine, and pauses between tries."""

import math
from itertools import islice

import pytest

from kafka_on_spark.store import deadlines
from kafka_on_spark.store.deadlines import SystemClock, WakingClock, pauses_ms


def test_a_waking_clock_never_goes_back_and_counts_the_machines_sleep(monkeypatch):
    waking = WakingClock()

    moments = [waking.monotonic_ms() for _ in range(3)]

    assert moments == sorted(moments)
    before_ms = SystemClock().monotonic_ms()
    assert waking.monotonic_ms() >= before_ms
    monkeypatch.setattr(deadlines, "_BOOT_TIME", None)
    assert abs(waking.monotonic_ms() - SystemClock().monotonic_ms()) < 60_000


# fmt: off
PAUSES = [  # first  limit     pauses
    pytest.param(1.0,  200.0,    [1, 2, 4, 8, 16, 32, 64, 128, 200, 200], id="up-to-the-limit"),
    pytest.param(50.0, math.inf, [50, 100, 200, 400, 800, 1600],          id="without-a-limit"),
    pytest.param(50.0, 10.0,     [50, 50, 50],                            id="never-below-the-first"),
]
# fmt: on


@pytest.mark.parametrize("first_ms, max_ms, expected", PAUSES)
def test_pauses_double_up_to_the_limit(first_ms, max_ms, expected):
    assert list(islice(pauses_ms(first_ms, max_ms), len(expected))) == expected
