"""All upkeep at once, as `maintain` asks for it: to its end, or a dry run that says what is due."""

from kafka_on_spark.log.upkeep_work import WorkDone
from tests.controller.worked_rounds import Worked


def test_a_dry_run_visits_each_replica_once_and_says_what_is_due():
    worked = Worked(2)
    worked.work = lambda order: WorkDone(count=2, what="pieces", size_bytes=5, is_left=True)

    report = worked.upkeep.run_all(is_dry_run=True)

    assert report.visited == len(worked.done) == 6
    assert all(order.is_dry_run for order in worked.done)
    assert str(report.rows[0]) == "orders-0 on broker 1: work: 2 pieces (5 bytes)"
