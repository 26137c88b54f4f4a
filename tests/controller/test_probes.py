"""A broker is silent when its probes have failed over all of its session, none too far apart."""

import pytest

from kafka_on_spark.controller.probes import after_failure, next_probe_in_ms

SESSION_MS = 900


def after(*probes):
    """Return what failed probes lead to: moments at which they end, or (begin, end)."""
    silence = None
    for each in probes:
        began_ms, ended_ms = each if isinstance(each, tuple) else (each, each)
        error = f"away at {ended_ms}"
        silence = after_failure(silence, began_ms, ended_ms, error, SESSION_MS)
    return silence


# fmt: off
ROWS = [
    # probes that failed, how many count, since when, whether the session is over
    pytest.param([0],                                  1, 0,    False, id="one"),
    pytest.param([0, 300],                             2, 0,    False, id="two"),
    pytest.param([0, 300, 600, 900],                   4, 0,    True,  id="over all of the session"),
    pytest.param([0, 300, 600, 899],                   4, 0,    False, id="not quite all of it"),
    pytest.param([0, 300, 601, 902],                   1, 902,  False, id="two of them too far apart"),
    pytest.param([0, 300, 5000],                       1, 5000, False, id="frozen between two"),
    pytest.param([0, 300, (600, 800), (900, 1100)],    4, 0,    True,  id="probes that hang"),
    pytest.param([0, 300, 600, (600, 9000)],           0, 0,    False, id="frozen in a probe"),
    pytest.param([0, 300, 600, (600, 9000), 9100],     1, 9100, False, id="frozen in a probe, then one"),
    pytest.param([0, (300, 825), (830, 1355)],         3, 0,    True,  id="each as late as it may be"),
]

# fmt: on


@pytest.mark.parametrize("probes, count, since_ms, is_over", ROWS)
def test_a_broker_is_silent_after_enough_failures_over_all_of_its_session(
    probes, count, since_ms, is_over
):
    silence = after(*probes)

    assert (0 if silence is None else silence.count) == count
    if silence is not None:
        assert silence.since_ms == since_ms
        assert silence.is_over(SESSION_MS) == is_over


def test_the_words_say_how_often_for_how_long_and_what_was_met():
    assert str(after(0, 300, 600, 900)) == "probe failed 4 times in 0.9 s (away at 900)"


@pytest.mark.parametrize(
    "probes, next_ms",
    [([0], 150), ([0, 150, 300, 450, 600, 750], 150), ([0, 300, 600, 860], 40), ([0, 450], 150)],
)
def test_the_next_probe_is_due_by_the_end_of_the_session(probes, next_ms):
    assert next_probe_in_ms(after(*probes), SESSION_MS) == next_ms
