"""A voter that hangs is left behind, whatever it hangs in: the others go on, and nothing piles up."""

import threading

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
)
from kafka_on_spark.metadata.quorum.voter_tables import LEFT_CALLS_MAX, SideBySide
from tests.voter_fakes import SETTINGS, OneByOne

LONG_S = 30


class NeverReturning(OneByOne):
    """Calls on one voter that take the time for which they are waited for, by the test's clock, and never
    return: those that commit, or all. `asked` names them."""

    def __init__(self, quorum, root, *, only_commits):
        super().__init__()
        self._clock, self._key, self._only_commits = quorum.clock, root.key, only_commits
        self.asked = []

    def run(self, calls, timeout_ms):
        hanging = [call for call in calls if self._hangs(call)]
        self.asked += [asked_by(call) for call in hanging]
        yield from super().run([call for call in calls if call not in hanging], timeout_ms)
        if hanging:
            self._clock.advance(timeout_ms)

    def _hangs(self, call):
        return call.key == self._key and not (self._only_commits and asked_by(call) == "look")


def asked_by(call):
    return call.ask.func.__name__


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


def test_a_voter_on_which_many_calls_hang_is_asked_no_more(quorum):
    process, over, begun = quorum.process(answer_timeout_ms=LONG_S * 1000), threading.Event(), []
    process.decide("first")
    key, tables = quorum.roots[2].key, process.tables
    tables._side_by_side = SideBySide(str)

    def hang():
        begun.append(True)
        over.wait(LONG_S)

    try:
        for _ in range(LEFT_CALLS_MAX):
            with pytest.raises(CommitOutcomeUnknownError):
                tables.in_time(key, hang, timeout_ms=20)
        with pytest.raises(KafkaStorageError, match="calls to it hang"):
            tables.in_time(key, hang)
        assert list(tables.each([key], tables.look)) == []
    finally:
        over.set()

    for _ in range(LONG_S * 100):
        if not tables._under_way[key]:
            break
        threading.Event().wait(0.01)
    assert list(tables.each([key], tables.look)) == [quorum.roots[2].table]
    assert len(begun) == LEFT_CALLS_MAX


class Slow(OneByOne):
    """Calls that take their voter's time, by the test's clock; an answer that comes later than it is
    waited for is lost."""

    def __init__(self, clock, took_ms):
        super().__init__()
        self._clock, self._took_ms = clock, took_ms

    def run(self, calls, timeout_ms):
        for call in calls:
            took_ms = self._took_ms[call.key]
            self._clock.advance(took_ms)
            call()
            if took_ms <= timeout_ms:
                yield call


@pytest.mark.parametrize(
    "others_ms, patience_ms",
    [
        pytest.param(1_500, 3_000, id="all are slow"),
        pytest.param(100, SETTINGS.answer_timeout_ms, id="one is slow"),
        pytest.param(60_000, 10_000, id="all were away"),
    ],
)
def test_voters_are_waited_for_as_long_as_the_median_of_them_lately_took(
    quorum, others_ms, patience_ms
):
    process = quorum.process()
    process.decide("first")
    first, *others = (root.key for root in quorum.roots)
    took_ms = {**dict.fromkeys(others, others_ms), first: max(others_ms, 1_500)}
    process.tables._side_by_side = Slow(quorum.clock, took_ms)

    for key in took_ms:
        list(process.tables.each([key], process.tables.look))

    assert process._times().answer_timeout_ms == patience_ms
    assert process._times().commit_ms <= 500, "readers pause for so long before they end a tail"


def test_decisions_are_made_by_voters_that_are_all_slower_than_a_voter_is_waited_for(quorum):
    process = quorum.process()
    process.decide("first")
    took_ms = {root.key: 2 * SETTINGS.answer_timeout_ms for root in quorum.roots}
    process.tables._side_by_side = Slow(quorum.clock, took_ms)

    process.decide("second")

    assert process.names() == ["first", "second"]
