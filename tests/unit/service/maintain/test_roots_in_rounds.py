"""Roots in rounds of upkeep: their part of the time, the throttle, and what fails of them."""

from kafka_on_spark.errors import KafkaStorageError
from tests.unit.service.maintain.worked_rounds import INTERVAL_MS, SlowRoots, begun


def test_roots_have_half_of_a_round_s_time_and_replicas_the_rest():
    worked = begun(2000, cluster={"log.cleaner.share": "0.01"})
    worked.took_ms = 10.0
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=300)

    worked.share(INTERVAL_MS)

    assert roots.let == [300]
    assert sum(worked.took_ms for _ in worked.done) <= 2 * 300


def test_a_long_piece_of_work_on_roots_is_made_up_for():
    worked = begun(10)
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=4000)

    visited = [worked.share(1000) for _ in range(4)]

    assert len(roots.let) == 1
    assert visited == [[], [], [], []]
    worked.share(INTERVAL_MS)
    assert len(roots.let) == 2


def test_roots_that_fail_keep_no_replica_from_its_visit(caplog):
    worked = begun()

    class Fails:
        def run_share(self, work_ms_max):
            raise KafkaStorageError("the metadata root may not be cleaned")

    worked.upkeep._roots = Fails()

    assert worked.share() == [0]
    assert "upkeep is left to the next round: the metadata root may not be cleaned" in caplog.text
    assert worked.share() == []


def test_roots_that_can_not_be_cleaned_are_told_by_rounds_and_by_maintain():
    worked = begun()
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=1)
    told = []
    for outcome, work in [("EIO", worked.share), (None, worked.share), ("away", worked.maintain)]:
        roots.outcomes = {2: outcome}
        work()
        told.append([each.error for each in worked.upkeep._watch.current(worked.metadata.image)])

    assert told == [["EIO"], [], ["away"]]


def test_a_round_of_some_topics_leaves_the_roots():
    worked = begun()
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=1)
    worked.clock.advance(INTERVAL_MS)

    worked.upkeep.run_share("orders")

    assert roots.let == []
