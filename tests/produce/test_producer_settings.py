"""Which settings a producer takes, and why others are refused."""

import pytest

from kafka_on_spark.base.errors import (
    InvalidConfigError,
    InvalidRequestError,
    InvalidRequiredAcksError,
)
from tests.produce.sent import settings

# fmt: off
REFUSED = [
    ({"max_in_flight": 5},                              InvalidConfigError,       "sequences count appends"),
    ({"max_in_flight": 0},                              InvalidConfigError,       "give 1"),
    ({"transactional_id": "mine"},                      InvalidConfigError,       "no transactions yet"),
    ({"acks": 0},                                       InvalidConfigError,       "futures are answers"),
    ({"acks": 2},                                       InvalidRequiredAcksError, "'all', 1 or 0"),
    ({"linger_ms": -1},                                 InvalidConfigError,       "0 or more"),
    ({"buffer_memory": 0},                              InvalidConfigError,       "1 or more"),
    ({"linger_ms": 1.5},                                InvalidRequestError,      "whole number"),
    ({"delivery_timeout_ms": 10, "linger_ms": 11},      InvalidConfigError,       "would expire"),
]
# fmt: on


@pytest.mark.parametrize("given, kind, said", REFUSED)
def test_a_setting_that_can_not_hold_is_refused_with_its_reason(given, kind, said):
    with pytest.raises(kind, match=said):
        settings(**given)
