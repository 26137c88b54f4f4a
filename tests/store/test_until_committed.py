"""The loop of load, decide and commit: what it does after each outcome, and how long."""

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    FencedLeaderEpochError,
    KafkaStorageError,
    RequestTimedOutError,
)
from kafka_on_spark.store.deadlines import until_committed
from tests.fakes import FakeClock

CONFLICT = CommitConflictError("version is taken")
UNKNOWN = CommitOutcomeUnknownError("the store failed")
FENCED = FencedLeaderEpochError("another leads")
LATE = (
    "other commits are faster (version is taken): try again",
    RequestTimedOutError,
)
UNTOLD, DENIED = ("the store failed", type(UNKNOWN)), ("another leads", type(FENCED))

# fmt: off
OUTCOMES = [  # a try takes 40 ms, and the call 100
    #            seen   what the tries come to               states that were decided on    result
    pytest.param(None,  ["put"],                             ["1"],                         "put",  id="committed"),
    pytest.param("0",   ["put"],                             ["0"],                         "put",  id="committed on what was known"),
    pytest.param(None,  [CONFLICT, "put"],                   ["1", "2"],                    "put",  id="conflict: it is read and decided again"),
    pytest.param("0",   [CONFLICT, CONFLICT, "put"],         ["0", "1", "2"],               "put",  id="what was known is not decided on again"),
    pytest.param("0",   [CONFLICT, CONFLICT, CONFLICT, "2"], ["0", "1", "2"],               LATE,   id="time is up"),
    pytest.param("0",   [UNKNOWN, "put"],                    ["0"],                         UNTOLD, id="unknown: nothing is decided anew"),
    pytest.param("0",   [CONFLICT, UNKNOWN, "put"],          ["0", "1"],                    UNTOLD, id="unknown after a conflict"),
    pytest.param("0",   [FENCED, "put"],                     ["0"],                         DENIED, id="refused"),
]
# fmt: on


@pytest.mark.parametrize("seen, tries, states, result", OUTCOMES)
def test_what_follows_an_outcome(seen, tries, states, result):
    clock, loaded, decided = FakeClock(), iter("123"), []

    def commit(state):
        decided.append(state)
        clock.advance(40)
        outcome = tries[len(decided) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run():
        return until_committed(
            lambda: next(loaded),
            commit,
            seen,
            clock=clock,
            timeout_ms=100,
            late=RequestTimedOutError,
        )

    if isinstance(result, tuple):
        with pytest.raises(result[1]) as caught:
            run()
        assert caught.value.message == result[0]
    else:
        assert run() == result
    assert decided == states


def test_a_pause_comes_before_each_further_try():
    clock, tries = FakeClock(), iter([CONFLICT, CONFLICT, None])

    def commit(_):
        outcome = next(tries)
        if outcome is not None:
            raise outcome

    until_committed(int, commit, clock=clock, pauses=iter([1.0, 2.0, 4.0]))

    assert clock.slept_ms == [1.0, 2.0]


def test_a_call_without_a_deadline_has_that_of_a_request():
    clock = FakeClock()

    def commit(_):
        clock.advance(10_001)
        raise CONFLICT

    with pytest.raises(KafkaStorageError):
        until_committed(int, commit, clock=clock)

    assert clock.monotonic_ms() == 30_003
