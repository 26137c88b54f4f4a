"""Which voters an idle read looks at, and how: it is made again and again while nothing happens."""

import pytest

from kafka_on_spark.errors import QuorumUnavailableError
from tests.voter_fakes import OneByOne


def test_an_idle_read_asks_a_voter_that_answered_rather_than_one_that_failed(quorum, process):
    quorum.roots[1].is_offline = True
    process.names()
    quorum.roots[1].is_offline = False
    before = [root.looks for root in quorum.roots]

    process.names()

    assert [root.looks - b for root, b in zip(quorum.roots, before, strict=True)] == [1, 0, 1]


class InTurn(OneByOne):
    """Voters whose looks are quick; each way of asking is noted. `is_late`: looks in turn are not."""

    def __init__(self):
        super().__init__()
        self.is_late, self.asked = False, []

    def run(self, calls, timeout_ms):
        self.asked.append(("side by side", [call.key.node_id for call in calls]))
        return super().run(calls, timeout_ms)

    def is_quick(self, key):
        return True

    def run_in_turn(self, calls, timeout_ms):
        self.asked.append(("in turn", [call.key.node_id for call in calls]))
        if self.is_late:
            return None
        return [call() for call in calls]


@pytest.fixture
def in_turn(process):
    process.names()
    process.tables._side_by_side = InTurn()
    return process.tables._side_by_side


def test_an_idle_read_looks_at_quick_voters_in_turn(quorum, process, in_turn):
    before = [root.looks for root in quorum.roots]

    process.names()

    assert in_turn.asked == [("in turn", [0, 1])]
    assert [root.looks - b for root, b in zip(quorum.roots, before, strict=True)] == [1, 1, 0]


def test_voters_on_which_something_was_committed_are_read_side_by_side(quorum, process, in_turn):
    quorum.process("q").decide("a")
    in_turn.asked.clear()

    assert process.names() == ["first", "a"]
    assert in_turn.asked == [("in turn", [0, 1]), ("side by side", [0, 1])]


def test_where_looks_in_turn_take_long_each_voter_is_asked_by_itself(quorum, process, in_turn):
    in_turn.is_late = True

    assert process.names() == ["first"]
    assert in_turn.asked == [("in turn", [0, 1]), ("side by side", [0, 1])]


def test_a_voter_that_failed_is_not_asked_in_turn(quorum, process, in_turn):
    for root in quorum.roots[1:]:
        root.is_offline = True
    with pytest.raises(QuorumUnavailableError):
        process.names()
    quorum.roots[2].is_offline = False
    in_turn.asked.clear()

    assert process.names() == ["first"]
    assert in_turn.asked == [("side by side", [0, 1]), ("side by side", [2])]
