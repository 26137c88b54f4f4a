"""One visit of upkeep: its kinds of work in order, each with its part, whatever fails before it."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.log.replica_upkeep import WORKS, run_upkeep
from kafka_on_spark.log.upkeep_work import WorkDone
from tests.controller.worked_rounds import begun


def test_a_replica_whose_root_does_not_answer_is_a_row():
    worked = begun()
    worked.share()
    worked.roots["memory://1"].is_offline = True
    worker = worked.worker()

    result = run_upkeep(worked.done[0], worker)

    assert len(result.done) == 1
    assert result.done[0][1].error


KINDS = ["log start", "merge", "compact", "clean", "log"]

# fmt: off
AFTER = [
    pytest.param("log start", ["log start", "clean", "log"]),
    pytest.param("merge",     ["log start", "merge", "clean", "log"]),
    pytest.param("compact",   KINDS),
    pytest.param("clean",     ["log start", "merge", "compact", "clean"]),
    pytest.param("log",       KINDS),
]
# fmt: on


@pytest.mark.parametrize("failing, done", AFTER)
def test_after_a_failure_goes_on_what_rests_on_the_table_alone(failing, done):
    """So a full disk gets room, and a file that stays damaged stops no cleaning."""
    worked = begun()
    worked.share()

    def work_of(name):
        def work(order, worker, allowance):
            if name == failing:
                raise KafkaStorageError("no space left")
            return WorkDone(count=1)

        return work

    assert [name for name, _ in WORKS] == KINDS
    result = run_upkeep(worked.done[0], worked.worker(), [(name, work_of(name)) for name in KINDS])

    assert [name for name, _ in result.done] == done
    assert [name for name, work in result.done if work.error] == [failing]


def test_each_kind_of_work_has_a_part_of_a_visit_whatever_those_before_it_take():
    """What is merged anew at each visit would else keep a folder from being cleaned for ever."""
    worked = begun()
    worked.share()
    order = replace(worked.done[0], work_ms_max=100.0, bytes_max=1000)
    seen = []

    def work_of(name):
        def work(order, worker, allowance):
            seen.append((name, allowance.is_time_over, allowance.bytes_left))
            worked.clock.advance(500)
            allowance.charge(1100)
            return WorkDone(count=1, is_left=allowance.is_spent)

        return work

    result = run_upkeep(order, worked.worker(), [(name, work_of(name)) for name in KINDS])

    assert seen == [("log start", False, 1000), *((name, False, 200) for name in KINDS[1:])]
    assert [name for name, _ in result.done] == KINDS
    assert result.is_left
    assert result.moved_bytes == 5500
