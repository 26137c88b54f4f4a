"""Roots in rounds of upkeep: their part of the time, and the throttle."""

from tests.controller.worked_rounds import INTERVAL_MS, SlowRoots, begun


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


def test_a_round_of_some_topics_leaves_the_roots():
    worked = begun()
    worked.upkeep._roots = roots = SlowRoots(worked, took_ms=1)
    worked.clock.advance(INTERVAL_MS)

    worked.upkeep.run_share("orders")

    assert roots.let == []
