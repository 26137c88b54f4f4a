"""A voter that hangs is left behind, whatever it hangs in: the others go on, and nothing piles up.

Calls run in real threads. A root hangs until the test ends; what hangs then goes on. Where it counts
how long calls are waited for, they hang by the test's clock.
"""

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
)
from kafka_on_spark.metadata.quorum.voter_tables import LEFT_CALLS_MAX
from tests.metadata.quorum.hanging_voters import (
    LONG_S,
    Hanging,
    NeverReturning,
    process_of,
    wait_until,
)
from tests.voter_fakes import SETTINGS


@pytest.fixture
def hanging():
    made = Hanging()
    yield made
    made.over.set()


@pytest.fixture
def process(quorum, hanging):
    return process_of(quorum, hanging)


def decide(process, name):
    """Decide, and again where another decision or an election was first."""
    try:
        process.decide(name)
    except CommitConflictError:
        process.decide(name)


def test_a_follower_that_hangs_stops_nobody_however_many_decisions_leave_calls_behind(
    quorum, hanging
):
    process = process_of(quorum, hanging, answer_timeout_ms=LONG_S * 1000)  # nobody waits for it
    hanging.commits(quorum.roots[2])
    names = [f"decision {number}" for number in range(40)]

    for name in names:
        process.decide(name)

    assert process.names() == ["first", *names]
    assert hanging.begun <= LEFT_CALLS_MAX


@pytest.mark.parametrize("only_commits", [True, False])
def test_the_time_that_a_leader_hung_counts_towards_its_replacement(quorum, only_commits):
    """Its commits hang, or every call. Half of the time is waited by then; and it is not asked once
    more for what hangs: that would take as long again."""
    process = quorum.process()
    process.decide("first")
    end = quorum.roots[0].table.log.end_offset
    process.calls = NeverReturning(quorum, quorum.roots[0], only_commits=only_commits)
    process.tables._side_by_side = process.calls
    began_ms = quorum.clock.monotonic_ms()

    with pytest.raises(CommitConflictError):  # a new leader's no-op stands there
        process.decide("a", at=end)

    assert quorum.roots[1].table.leads
    assert process.calls.asked.count("commit") == 1
    assert quorum.clock.monotonic_ms() - began_ms < 1.5 * SETTINGS.fetch_timeout_ms


def test_a_decision_that_hung_and_landed_is_answered_once(quorum, hanging):
    """It is put again meanwhile, by another thread on the same table."""
    process = process_of(quorum, hanging, fetch_timeout_ms=LONG_S * 1000)  # nobody else is elected
    root, end = quorum.roots[0], quorum.roots[0].table.log.end_offset

    def hang_first(change):
        if hanging.begun == 0:
            hanging.wait()
        else:
            hanging.over.set()
            wait_until(lambda: root.table.log.end_offset > end)

    root.before_commit = hang_first

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert root.table.leads


def test_a_voter_on_which_many_calls_hang_is_asked_no_more(quorum, process, hanging):
    key, tables = quorum.roots[2].key, process.tables
    for _ in range(LEFT_CALLS_MAX):
        with pytest.raises(CommitOutcomeUnknownError):
            tables.in_time(key, hanging.wait)

    with pytest.raises(KafkaStorageError, match="calls to it hang"):
        tables.in_time(key, hanging.wait)
    assert list(tables.each([key], tables.look)) == []

    hanging.over.set()
    wait_until(lambda: not tables._under_way[key])
    assert list(tables.each([key], tables.look)) == [quorum.roots[2].table]
    assert hanging.begun == LEFT_CALLS_MAX
