"""A leader whose root fails: when it is replaced, and what becomes of its decisions."""

import pytest

from kafka_on_spark.base.errors import (
    QuorumUnavailableError,
    RootAccessDeniedError,
)
from tests.metadata.quorum.candidates import epochs
from tests.voter_fakes import SETTINGS, VoterFault


def test_a_leader_whose_root_fails_for_the_fetch_timeout_is_replaced(quorum, process):
    quorum.roots[0].is_offline = True

    process.decide("a")

    assert sum(quorum.clock.slept_ms) >= 2000
    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads
    assert epochs(quorum) == [1, 2, 2]


def test_a_leader_whose_root_fails_for_less_stays(quorum, process):
    quorum.roots[0].is_offline = True

    def come_back():
        if quorum.clock.monotonic_ms() > 1900:
            quorum.roots[0].is_offline = False

    quorum.clock.on_sleep = come_back

    process.decide("a")

    assert epochs(quorum) == [1, 1, 1]


def test_failures_long_apart_do_not_add_up(quorum, process):
    for _ in range(5):
        quorum.roots[0].is_offline = quorum.roots[1].is_offline = True
        with pytest.raises(QuorumUnavailableError):
            process.names()
        quorum.roots[0].is_offline = quorum.roots[1].is_offline = False
        quorum.clock.advance(10_000)
    quorum.roots[0].is_offline = True
    quorum.clock.on_sleep = lambda: setattr(quorum.roots[0], "is_offline", False)

    assert process.names() == ["first"]
    assert epochs(quorum) == [1, 1, 1]


def deny(*roots, times=100):
    for each in roots:
        each.faults.extend([VoterFault.DENIED] * times)


def test_a_process_without_permission_is_told_and_no_leader_is_replaced(quorum, process):
    deny(*quorum.roots)
    began_ms = quorum.clock.monotonic_ms()

    with pytest.raises(RootAccessDeniedError):
        process.decide("a")

    assert quorum.clock.monotonic_ms() - began_ms < 2 * SETTINGS.fetch_timeout_ms
    assert epochs(quorum) == [1, 1, 1]
