"""How long a stream's append waits for in-sync replicas, and what it says if none come."""

import pytest

from kafka_on_spark.base.errors import (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    ProducerFencedError,
    QuorumUnavailableError,
)
from kafka_on_spark.produce.append_service import append_when_in_sync
from tests.fakes import FakeClock

BEFORE = NotEnoughReplicasError("refused")
AFTER = NotEnoughReplicasAfterAppendError("may stand")


class Appends:
    """An append that raises errors, one each time and the last one again, or returns at the end."""

    def __init__(self, *errors, returns=True):
        self._errors = list(errors)
        self._returns = returns
        self.tries = 0

    def __call__(self):
        self.tries += 1
        if self._returns and self.tries > len(self._errors):
            return "appended"
        raise self._errors[min(self.tries, len(self._errors)) - 1]


def run(appends, catch_up=lambda: None, clock=None, timeout_ms=5000):
    clock = FakeClock() if clock is None else clock
    return append_when_in_sync(appends, catch_up, clock, timeout_ms=timeout_ms)


@pytest.mark.parametrize("errors", [[], [BEFORE], [AFTER], [BEFORE, AFTER, BEFORE]])
def test_an_append_is_tried_until_enough_replicas_are_in_sync(errors):
    caught_up, clock = [], FakeClock()

    assert run(Appends(*errors), lambda: caught_up.append(1), clock) == "appended"

    assert len(caught_up) == len(clock.slept_ms) == len(errors)


def test_an_append_ends_when_its_time_is_up():
    clock = FakeClock()

    with pytest.raises(NotEnoughReplicasError, match="refused"):
        run(Appends(BEFORE, returns=False), clock=clock)

    assert sum(clock.slept_ms) <= 5000


@pytest.mark.parametrize("errors", [[BEFORE, AFTER, BEFORE], [AFTER, BEFORE]])
def test_what_may_stand_is_not_called_refused_by_a_later_try(errors):
    with pytest.raises(NotEnoughReplicasAfterAppendError, match="may stand"):
        run(Appends(*errors, returns=False))


def test_another_error_is_not_waited_out():
    appends = Appends(BEFORE, ProducerFencedError("a newer run"))

    with pytest.raises(ProducerFencedError):
        run(appends)

    assert appends.tries == 2


def test_metadata_that_can_not_be_caught_up_with_ends_the_wait():
    def catch_up():
        raise QuorumUnavailableError("away")

    with pytest.raises(QuorumUnavailableError):
        run(Appends(BEFORE), catch_up)
