"""Rounds that copy much: in waves, so that one copy holds up no ISR and no high watermark."""

import pytest

from kafka_on_spark.controller import replication_round
from tests.builders import KEY
from tests.controller.rounds import Rounds


@pytest.fixture(autouse=True)
def small_waves(monkeypatch):
    """Three batches a wave, of one fetch, or four of all together: each takes a millisecond."""
    monkeypatch.setattr(replication_round, "FETCH_MS_MAX", 3)
    monkeypatch.setattr(replication_round, "WAVE_MS_MAX", 4)


class Waves(Rounds):
    """Rounds whose commits bring a batch, and that note what is so before each wave's decision.

    `after_wave` is called when the fetches of a wave have ended, with the number of waves before.
    `batch_ms`: how long copying a batch to a broker takes.
    """

    def __init__(self, *arguments, **fields):
        super().__init__(*arguments, settings={"replica.fetch.max.bytes": "100"}, **fields)
        self.after_wave = lambda number: None
        self.batch_ms = {1: 1, 2: 1, 3: 1}
        self.segments.copy = self._taking_time(self.segments.copy)
        self.ends, self.isrs, self.hws = [], [], []

    def _taking_time(self, copy):
        def copy_slowly(source, target, *arguments, **fields):
            self.clock.advance(self.batch_ms[target.broker_id])
            copy(source, target, *arguments, **fields)

        return copy_slowly

    def _run_fetches(self, orders):
        results = super()._run_fetches(orders)
        if any(
            each.copy_bytes_max != 0 for each in orders
        ):  # the slice's inspection copies nothing
            self.note()
        return results

    def note(self):
        partitions = [self.metadata.image.partition(key) for key in self.keys]
        self.ends.append([self.end(3, key.partition) for key in self.keys])
        self.isrs.append([sorted(each.isr) for each in partitions])
        self.hws.append([each.high_watermark for each in partitions])
        self.after_wave(len(self.ends) - 1)


# fmt: off
DURING = [  # batches that are appended in each wave, of two that it copies, and who is in sync then
    pytest.param("1 2 3", 1, {1, 2, 3}, id="members stay"),
    pytest.param("1",     1, {1, 2, 3}, id="others join"),
    pytest.param("1 2 3", 2, {1},       id="appends are as fast as the copy: members lag"),
]
# fmt: on


@pytest.mark.parametrize("isr, appended_count, members", DURING)
def test_what_is_appended_during_a_long_copy_is_no_lag_if_it_becomes_less(
    isr, appended_count, members
):
    rounds = Waves(isr=isr)
    rounds.append(0, "a", 30)

    def append_meanwhile(number):
        rounds.clock.advance(11_000)
        rounds.append(0, f"b{number}", appended_count)

    rounds.after_wave = append_meanwhile
    for _ in range(2):
        rounds.run()

    assert rounds.metadata.image.partition(KEY).isr == members


def test_what_is_left_of_a_throttled_copy_that_ended_by_time_is_copied_at_once():
    configs = {"follower.replication.throttled.replicas": "0:3"}
    rounds = Waves(isr="1 3", configs=configs)
    rounds.append(0, "a", 9)
    rounds.batch_ms = {2: 0, 3: 1000}

    report = rounds.run(copy_ms_max=1000, follower_replication_throttled_rate=10_000)

    assert (rounds.end(2), rounds.end(3), report.resume_after_ms) == (9, 1, 0)
