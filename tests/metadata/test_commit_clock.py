"""A process's time for what it commits: when the root is asked, and what is said of wrong clocks."""

import pytest

from kafka_on_spark.metadata.metadata_service import ASK_AGAIN_MS, CommitClock
from tests.fakes import FakeClock

AHEAD_MAX_MS = 60_000
HOUR_MS = 3_600_000


class Process:
    """A process of which the clock may be wrong, and a root that says the true time."""

    def __init__(self, ahead_ms=0):
        self.true = FakeClock()
        self.own = FakeClock(self.true.now_ms() + ahead_ms)
        self.is_away = False
        self.asked = 0
        self.clock = CommitClock(
            self.own,
            ask_root_ms=self.ask,
            newest_ms=lambda: 0,
            ahead_max_ms=lambda: AHEAD_MAX_MS,
        )

    def ask(self):
        self.asked += 1
        return None if self.is_away else self.true.now_ms()

    def advance(self, duration_ms):
        self.true.advance(duration_ms)
        self.own.advance(duration_ms)

    def error_ms(self):
        return self.clock.now_ms() - self.true.now_ms()


def test_a_right_clock_asks_the_root_once_and_says_nothing(caplog):
    process = Process()
    for _ in range(100):
        assert process.error_ms() == 0
        process.advance(HOUR_MS)

    assert process.asked == 1
    assert not caplog.records


def test_a_clock_that_is_ahead_is_held_to_the_root_s_and_told_of_once(caplog):
    process = Process(ahead_ms=2 * HOUR_MS)
    for _ in range(3):
        assert process.error_ms() == AHEAD_MAX_MS
        process.advance(HOUR_MS)

    [told] = [each.getMessage() for each in caplog.records]
    assert "the clock of this process is 7200 s ahead of that of the metadata root" in told


def test_a_root_s_clock_that_is_set_right_is_noticed():
    process = Process()
    process.true._started_at_ms -= HOUR_MS
    process.clock.now_ms()
    process.true._started_at_ms += HOUR_MS
    process.advance(ASK_AGAIN_MS)

    assert process.error_ms() == 0


def test_a_process_whose_clock_is_wrong_asks_once_a_second_at_most():
    process = Process(ahead_ms=HOUR_MS)
    for _ in range(1000):
        process.clock.now_ms()
    assert process.asked == 1


# fmt: off
AGES = [  # its own is ahead by    the root's by        what is too old is so by
    pytest.param(0,                 0,                   0,           id="both are right"),
    pytest.param(2 * HOUR_MS,       0,                   0,           id="its own is ahead"),
    pytest.param(0,                 2 * HOUR_MS,         0,           id="the root's is ahead"),
    pytest.param(-2 * HOUR_MS,      0,        -2 * HOUR_MS,           id="its own is behind"),
    pytest.param(0,                 -2 * HOUR_MS, -2 * HOUR_MS,       id="the root's is behind"),
]
# fmt: on


@pytest.mark.parametrize("own_ms, root_ms, expected", AGES)
def test_nothing_is_too_old_by_one_clock_that_is_ahead(own_ms, root_ms, expected):
    process = Process(ahead_ms=own_ms)
    true_ms = process.true.now_ms()
    process.true.advance(root_ms)

    assert process.clock.too_old_by_ms() - true_ms == expected


def test_nothing_is_too_old_where_the_root_tells_no_time():
    process = Process()
    process.is_away = True

    assert process.clock.too_old_by_ms() is None
