"""Voters that take their time: how long they are waited for, and when they are no quorum."""

import pytest

from kafka_on_spark.base.errors import QuorumUnavailableError
from kafka_on_spark.metadata.quorum import quorum_log
from tests.voter_fakes import SETTINGS, STAMP, settings_of


class LateAnswers:
    """Voters whose answers come after the call that asked has gone on, the first `late` times; each
    answer takes `answer_ms`."""

    def __init__(self, clock, late, answer_ms=0):
        self.clock, self.late, self.answer_ms = clock, late, answer_ms

    def run(self, calls, timeout_ms):
        answers = [call() for call in calls]
        if self.late or timeout_ms < self.answer_ms:
            self.late = max(self.late - 1, 0)
            self.clock.sleep_ms(timeout_ms)
            return
        self.clock.sleep_ms(self.answer_ms)
        yield from answers


def test_voters_that_are_slow_are_waited_for_as_a_leader_is(quorum):
    """A process that opens a large log reads each voter for longer than it waits for an answer."""
    process = quorum.process("new")
    process.tables._side_by_side = LateAnswers(quorum.clock, late=3)

    assert process.names() == []


def test_voters_that_stay_slow_are_no_quorum(quorum):
    process = quorum.process("new")
    process.tables._side_by_side = LateAnswers(quorum.clock, late=1000)

    with pytest.raises(QuorumUnavailableError, match="all answer"):
        process.names()


def test_where_most_voters_fail_a_slow_one_is_not_waited_for(quorum):
    process = quorum.process("new")
    process.tables._side_by_side = LateAnswers(quorum.clock, late=1000)
    for root in quorum.roots[:2]:
        root.is_offline = True
    began_ms = quorum.clock.monotonic_ms()

    with pytest.raises(QuorumUnavailableError, match="does not answer"):
        process.names()

    assert quorum.clock.monotonic_ms() - began_ms < SETTINGS.call_timeout_ms


def test_a_large_decision_has_the_time_that_its_voters_need_to_copy_it(
    quorum, process, monkeypatch
):
    monkeypatch.setattr(quorum_log, "COPIED_A_MS", 1)
    slow = LateAnswers(quorum.clock, late=0, answer_ms=9000)
    names = [f"setting {number}" for number in range(8000)]
    end = quorum.roots[0].table.log.end_offset
    process.tables._side_by_side = slow

    process.append(settings_of(*names), STAMP, expected_offset=end)

    assert [root.table.log.end_offset for root in quorum.roots] == [end + len(names)] * 3
