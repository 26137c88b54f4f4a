"""What keeps failing is logged when it begins and when it is over, and not meanwhile."""

import logging
from functools import partial
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.controller.cleanup_policy import RETENTION
from kafka_on_spark.controller.failures import TOLD_MAX, Failures
from kafka_on_spark.controller.upkeep import _Done
from kafka_on_spark.log.upkeep_work import WHOLE, UpkeepResult, WorkDone
from tests.controller.rounds import Rounds
from tests.controller.worked_rounds import begun
from tests.fakes import FakeClock


@pytest.fixture
def told(caplog):
    """Gives the lines that were logged since it was asked last, with their levels."""
    caplog.set_level(logging.DEBUG, "kafka_on_spark")

    def lines():
        found = [(each.levelname, each.getMessage()) for each in caplog.records]
        caplog.clear()
        return found

    return lines


def test_a_failure_is_told_once_whatever_words_it_has_and_so_is_its_end(told):
    clock = FakeClock()
    failures = Failures(SimpleNamespace(clock=clock))
    for why in ("no room for a1", "no room for b2"):
        failures.note({"t-0 on broker 1: merge": why, "t-1 on broker 1: merge": ""})
        clock.advance(1500)
    failures.note({"t-1 on broker 1: merge": ""})
    assert told() == [("WARNING", "t-0 on broker 1: merge: no room for a1")]

    failures.note({"t-0 on broker 1: merge": ""})
    failures.note({"t-0 on broker 1: merge": ""})
    assert told() == [("INFO", "t-0 on broker 1: merge: is over after 3.0 s")]


def test_of_many_that_begin_together_some_are_named_and_all_are_counted(told):
    failures = Failures(SimpleNamespace(clock=FakeClock()))
    names = [f"t-{number}" for number in range(TOLD_MAX + 5)]

    failures.note(dict.fromkeys(names, "away"))

    assert len(lines := told()) == TOLD_MAX + 1
    assert lines[-1] == ("WARNING", "and 5 more like that")


def test_upkeep_that_fails_at_each_visit_is_told_once(told):
    worked = begun()
    worked.work = lambda order: WorkDone().failed(KafkaStorageError("away"))
    for _ in range(3):
        worked.share()
    assert [line for level, line in told() if level == "WARNING"] == [
        f"orders-0 on broker {each}: work: KafkaStorage: away" for each in (1, 2, 3)
    ]

    worked.work = lambda order: WorkDone()
    worked.share()
    worked.share()
    assert [line.split(" after ")[0] for _, line in told()] == [
        f"orders-0 on broker {each}: work: is over" for each in (1, 2, 3)
    ]


def test_a_decision_on_a_log_that_can_be_read_ends_no_failure_of_its_upkeep(told):
    worked = begun()
    worked.upkeep.passes = (SimpleNamespace(kind=RETENTION, run=lambda *_, **__: []),)
    worked.share()
    of_leader = partial(UpkeepResult, key=worked.done[0].key, broker_id=1)
    failed = WorkDone().failed(KafkaStorageError("hangs"))
    told()

    for _ in range(3):
        worked.upkeep._note([of_leader(done=((RETENTION, WorkDone()),))], _Done())
        worked.upkeep._note([of_leader(done=((WHOLE, failed),))], _Done())
    assert told() == [("WARNING", "orders-0 on broker 1: upkeep: KafkaStorage: hangs")]


def test_a_merge_is_told_to_those_who_debug(told):
    worked = begun()
    worked.share()
    done = WorkDone(count=1, what="pieces")
    works = tuple((kind, done) for kind in ("merge", "compact"))

    worked.upkeep._note([UpkeepResult(key=worked.done[0].key, broker_id=1, done=works)], _Done())

    assert [level for level, _ in told()] == ["DEBUG", "INFO"]


def test_an_inspection_that_goes_well_ends_no_failure_of_a_fetch(told):
    """A full disk is read as well as ever."""
    rounds = Rounds()
    rounds.append(0, "a")
    rounds.roots["memory://3"].is_offline = True
    rounds.run()
    assert [line.split(": ")[:2] for _, line in told()] == [["orders-0 on broker 3", "fetch"]]

    rounds.roots["memory://3"].is_offline = False
    rounds.run()  # the fetch waits, and the replica is inspected
    assert told() == []
    rounds.clock.advance(1000)
    rounds.run()
    assert [line.split(" after ")[0] for _, line in told()] == [
        "orders-0 on broker 3: fetch: is over"
    ]
