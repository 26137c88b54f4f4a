"""Rounds that copy much: in waves, so that one copy holds up no ISR and no high watermark."""

import pytest

from kafka_on_spark.service.replicate import replication_round
from tests.builders import KEY
from tests.unit.service.rounds import Rounds

LAG_MS = 30_000  # replica.lag.time.max.ms


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


def test_a_follower_joins_while_another_partition_s_is_still_copied():
    rounds = Waves(2, isr="1")
    rounds.append(0, "a")
    rounds.append(1, "b", 15)

    report = rounds.run()

    assert rounds.isrs[1] == [[1, 2, 3], [1]]  # the first wave has decided
    assert rounds.ends[1][1] < rounds.end(3, 1) == 15
    assert (report.is_caught_up, report.isr_changes, report.copied_bytes) == (True, 2, 3200)


def test_what_is_appended_during_a_copy_is_committed_by_the_next_wave():
    rounds = Waves(2, isr="1 2")
    rounds.append(1, "b", 15)
    rounds.after_wave = lambda number: rounds.append(0, "a") if number == 1 else None

    rounds.run()

    assert [hw for hw, _ in rounds.hws[:4]] == [0, 0, 0, 1]
    assert rounds.ends[3][1] < 15


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


def test_a_member_of_the_isr_whose_copy_goes_on_is_not_taken_out():
    rounds = Waves(isr="1 2 3")
    rounds.append(0, "a", 9)
    rounds.clock.advance(LAG_MS + 1)

    report = rounds.run()

    assert (report.isr_changes, report.is_caught_up) == (0, True)
    assert rounds.hws == sorted(rounds.hws)
    assert len({hw for [hw] in rounds.hws}) > 2  # it moves with each wave


def test_a_member_of_the_isr_that_a_whole_round_could_not_catch_up_lags():
    """Its root may be slower than the appends, for ever."""
    rounds = Waves(isr="1 2 3")
    rounds.append(0, "a", 9)
    rounds.clock.advance(LAG_MS + 1)
    rounds.after_wave = lambda number: rounds.clock.advance(1000)

    report = rounds.run(copy_ms_max=1000)

    assert report.isr_changes == 1
    assert rounds.metadata.image.partition(KEY).isr == {1}


def test_the_time_of_a_round_that_ends_with_a_decision_lets_no_laggard_escape():
    """The wave before it took nobody out, since another was to follow."""
    rounds = Waves(isr="1 2 3")
    rounds.append(0, "a", 9)
    rounds.clock.advance(LAG_MS + 1)
    submit = rounds.metadata.submit

    def submit_slowly(*arguments, **fields):
        answer = submit(*arguments, **fields)
        rounds.clock.advance(10)
        return answer

    rounds.metadata.submit = submit_slowly
    report = rounds.run(copy_ms_max=10)

    assert (rounds.ends, report.isr_changes) == ([[2], [4]], 1)
    assert rounds.metadata.image.partition(KEY).isr == {1}


def test_a_copy_to_a_slow_root_holds_up_no_other_one():
    rounds = Waves(isr="1 2 3")
    rounds.append(0, "a", 9)
    rounds.clock.advance(LAG_MS + 1)
    rounds.batch_ms = {2: 0, 3: 30_000}

    report = rounds.run(copy_ms_max=20_000)

    assert (rounds.ends, rounds.end(2)) == ([[1]], 9)
    assert report.isr_changes == 1
    assert rounds.metadata.image.partition(KEY).isr == {1, 2}


def test_a_round_ends_with_its_time_and_the_next_one_goes_on_at_once():
    rounds = Waves(isr="1 2")
    rounds.append(0, "a", 9)
    rounds.after_wave = lambda number: rounds.clock.advance(1000)

    first = rounds.run(copy_ms_max=1000)
    rounds.after_wave = lambda number: None
    second = rounds.run(copy_ms_max=1000)

    assert (first.is_caught_up, first.resume_after_ms) == (False, 0)
    assert (second.is_caught_up, second.resume_after_ms) == (True, None)
    assert first.copied_bytes + second.copied_bytes == 1800


def test_a_sweep_copies_in_waves_as_well_and_has_inspected_all():
    rounds = Waves(2, isr="1")
    rounds.append(0, "a")
    rounds.append(1, "b", 15)

    report = rounds.run(is_sweep=True)

    assert (report.is_caught_up, report.not_looked_at) == (True, 0)
    assert [[1, 2, 3], [1]] in rounds.isrs


def test_a_throttled_copy_goes_on_with_each_wave_and_makes_none():
    """Replica 3 gets one batch a second, and a wave takes a second."""
    rounds = Waves(isr="1", configs={"follower.replication.throttled.replicas": "0:3"})
    rounds.append(0, "a", 9)
    rounds.after_wave = lambda number: rounds.clock.advance(1000)

    report = rounds.run(follower_replication_throttled_rate=100)

    assert rounds.end(2) == 9
    assert rounds.ends == [[1], [2], [3], [4]]
    assert not report.is_caught_up


def test_a_throttled_member_whose_copy_ends_by_time_goes_on_as_any_other():
    """What its throttle grants it would have sufficed."""
    configs = {"follower.replication.throttled.replicas": "0:3"}
    rounds = Waves(isr="1 2 3", configs=configs)
    rounds.append(0, "a", 9)
    rounds.clock.advance(LAG_MS + 1)

    report = rounds.run(follower_replication_throttled_rate=10_000)

    assert (report.isr_changes, report.is_caught_up) == (0, True)


def test_what_is_left_of_a_throttled_copy_that_ended_by_time_is_copied_at_once():
    configs = {"follower.replication.throttled.replicas": "0:3"}
    rounds = Waves(isr="1 3", configs=configs)
    rounds.append(0, "a", 9)
    rounds.batch_ms = {2: 0, 3: 1000}

    report = rounds.run(copy_ms_max=1000, follower_replication_throttled_rate=10_000)

    assert (rounds.end(2), rounds.end(3), report.resume_after_ms) == (9, 1, 0)


def test_many_copies_share_a_wave():
    rounds = Waves(3, isr="1 2")
    for number in range(3):
        rounds.append(number, "abc"[number], 4)

    rounds.run()

    assert rounds.ends[0] == [1, 1, 1]
    assert [rounds.end(3, number) for number in range(3)] == [4, 4, 4]
