"""Days of traffic on real files: the roots hold what the retained records need, and little more."""

import logging

import pytest

from tests.cluster.disks import new_disks
from tests.cluster.week import bounds
from tests.cluster.week.simulated_time import DAY_MS, HOUR_MS, MINUTE_MS, SimulatedTime
from tests.cluster.week.traffic import CONFIGS, Traffic

log = logging.getLogger(__name__)

REST_MS = 4 * HOUR_MS
"""What was removed has its delay, and the roots their visit."""


@pytest.fixture
def clock(monkeypatch):
    clock = SimulatedTime()
    clock.install(monkeypatch)
    return clock


@pytest.mark.long
@pytest.mark.parametrize(
    "days, step_ms, rows, bursts",
    [
        pytest.param(1, HOUR_MS, 400, 3, id="a-day"),
        pytest.param(7, 15 * MINUTE_MS, 200, 1, id="a-week"),
    ],
)
def test_after_days_of_traffic_the_roots_hold_what_is_retained(clock, days, step_ms, rows, bursts):
    with new_disks(brokers=4, configs=CONFIGS) as disks:
        traffic = Traffic(disks, clock, step_ms=step_ms, rows=rows, bursts=bursts)
        traffic.begin()
        for day in range(days):
            for _ in range((DAY_MS - REST_MS) // step_ms):
                traffic.step()
            traffic.rest(REST_MS)
            held = bounds.look(disks.cluster, clock, disks.metadata_root)
            log.info("day %d: %s", day + 1, held)
            assert not held.flaws, "\n".join(held.flaws)
        assert len(traffic.deaths) >= days, "clients die, as is meant"
