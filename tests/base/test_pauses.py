"""Pauses between tries: twice as long each time, up to a limit."""

import math
from itertools import islice

import pytest

from kafka_on_spark.base.process import pauses_ms

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
