"""Upkeep of roots: once an hour by whichever process, and when it is asked for."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafka_on_spark.service.maintain.root_upkeep import INTERVAL_MS, RootUpkeep
from kafka_on_spark.spark.wiring.upkeep import whole_roots
from tests.builders import image_of, partition
from tests.fakes import FakeClock

HALF_PAST = 1000 * INTERVAL_MS + INTERVAL_MS // 2


class Roots:
    def __init__(self, count=3, configs=None, **options):
        self.clock = FakeClock(HALF_PAST)
        self.listed = []
        image = replace(image_of(partition("1 2 3"), **options), configs=configs or {})
        metadata = SimpleNamespace(image=image, clean=lambda: count)
        self.upkeep = RootUpkeep(metadata, self.clock, visit=self.visit)

    def visit(self, image):
        orders = whole_roots(image)
        self.listed += [order.broker_id for order in orders]
        assert all(order.topic_ids is None for order in orders)


# fmt: off
TIMES = [
    pytest.param(None,             False, id="no-round-before"),
    pytest.param(1000,             False, id="in-the-same-hour"),
    pytest.param(INTERVAL_MS // 2 + 1, True, id="in-the-hour-before"),
    pytest.param(50 * INTERVAL_MS, True,  id="long-ago"),
]
# fmt: on


@pytest.mark.parametrize("since_ms, is_due", TIMES)
def test_the_first_round_of_an_hour_visits_the_roots(since_ms, is_due):
    roots = Roots()

    rows = roots.upkeep.run_if_due(since_ms)

    assert bool(rows) == is_due
    assert roots.listed == ([1, 2, 3] if is_due else [])


# fmt: off
CLEANINGS = [
    pytest.param(   10_000,  59_999, False, id="ten-seconds-in-the-same-minute"),
    pytest.param(   10_000,  60_000, True,  id="ten-seconds-in-the-minute-before"),
    pytest.param(  600_000, 299_999, False, id="ten-minutes-in-the-same-ten"),
    pytest.param(  600_000, 300_000, True,  id="ten-minutes-in-those-before"),
    pytest.param(3_600_000, 300_000, False, id="an-hour"),
]
# fmt: on


@pytest.mark.parametrize("delay_ms, since_ms, is_due", CLEANINGS)
def test_the_metadata_log_is_cleaned_as_often_as_what_it_removes_may_go(delay_ms, since_ms, is_due):
    roots = Roots(configs={"file.delete.delay.ms": str(delay_ms)})
    roots.clock.advance(299_999)

    rows = roots.upkeep.run_if_due(since_ms)

    assert bool(rows) == is_due
    assert roots.listed == []


def test_what_is_deleted_from_the_metadata_root_is_a_row():
    [row] = Roots().upkeep.run()

    assert str(row) == "__cluster_metadata-0: clean: 3 files deleted (0 bytes)"
    assert Roots(0).upkeep.run() == ()


def test_a_broker_that_is_fenced_is_left_alone():
    roots = Roots(fenced="2")

    roots.upkeep.run()

    assert roots.listed == [1, 3]
