"""Rounds that copy much: in waves, so that one copy holds up no ISR and no high watermark."""

from dataclasses import replace

import pytest

from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.service.replicate import sweep_progress
from kafka_on_spark.service.replicate.fetching import copy_waves
from kafka_on_spark.service.replicate.fetching.copy_waves import CopyWaves
from kafka_on_spark.service.replicate.fetching.fetch import FetchResult
from tests.builders import KEY, TOPIC_ID, image_of, partition, report, seen
from tests.fakes import FakeClock
from tests.unit.service.replicate.fetching.two_replicas import ORDER
from tests.unit.service.rounds import Rounds

LAG_MS = 30_000  # replica.lag.time.max.ms


@pytest.fixture(autouse=True)
def small_waves(monkeypatch):
    """Three batches a wave, of one fetch, or four of all together: each takes a millisecond."""
    monkeypatch.setattr(copy_waves, "FETCH_MS_MAX", 3)
    monkeypatch.setattr(copy_waves, "WAVE_MS_MAX", 4)


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


def fetched(leader_end, end, *, copied_bytes=0, missing_bytes=0):
    """Return the result of a fetch by follower 2, which since long ago lacks `missing_bytes`."""
    missing = {"missing_bytes": missing_bytes, "missing_since_ms": 0} if missing_bytes else {}
    seen_now = report(seen(1, leader_end), seen(2, end, **missing))
    return FetchResult(report=seen_now, copied_bytes=copied_bytes)


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


def test_a_round_copies_to_where_the_leader_s_log_ended_when_it_first_saw_it():
    """Appends that are as fast as a copy would keep a round for ever."""
    rounds = Waves(isr="1 2")
    rounds.append(0, "a", 6)
    rounds.after_wave = lambda number: rounds.append(0, f"b{number}", 5)

    rounds.run()

    assert 6 <= rounds.end(3) < rounds.end(1)


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


def test_a_member_of_the_isr_of_which_a_round_has_brought_half_does_not_lag():
    """The next round brings the rest as fast."""
    rounds = Waves(isr="1 2 3")
    rounds.append(0, "a", 4)
    rounds.clock.advance(LAG_MS + 1)
    rounds.after_wave = lambda number: rounds.clock.advance(1000)

    report = rounds.run(copy_ms_max=1000)

    assert (report.is_caught_up, report.resume_after_ms, rounds.ends) == (False, 0, [[2]])
    assert rounds.metadata.image.partition(KEY).isr == {1, 2, 3}


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


def test_a_member_that_had_caught_up_is_judged_by_the_half_of_what_it_lacks_since():
    """It lacked less when the round first saw it, and the round has brought all of that."""
    clock = FakeClock()
    waves = CopyWaves(clock, 1000)
    waves.end([ORDER], [fetched(10, 10, copied_bytes=100)])
    clock.advance(1000)

    [judged] = waves.end([ORDER], [fetched(40, 30, copied_bytes=200, missing_bytes=100)])

    assert waves.is_last
    assert judged.followers[0].missing_since_ms is None


def test_a_look_after_the_last_wave_takes_out_no_member_that_the_wave_left_in(monkeypatch):
    """A later part of the round's slice comes to the partition, and copies nothing."""
    monkeypatch.setattr(sweep_progress, "FIRST_INSPECTIONS", 1)
    rounds = Waves(2, isr="1 2 3")
    rounds.append(1, "b", 4)
    rounds.clock.advance(LAG_MS + 1)
    rounds.after_wave = lambda number: rounds.clock.advance(1000)

    rounds.run(copy_ms_max=1000)

    assert (1, 3) in rounds.fetched(is_inspection=True)
    assert rounds.metadata.image.partition(rounds.keys[1]).isr == {1, 2, 3}


def test_a_look_for_another_replica_s_sake_takes_out_no_member_that_the_wave_left_in():
    """Broker 2 refuses, so that the partition's replicas are all inspected again."""
    rounds = Waves(isr="1 2 3")
    rounds.append(0, "a", 4)
    rounds.clock.advance(LAG_MS + 1)
    rounds.roots["memory://2"].is_offline = True
    rounds.after_wave = lambda number: rounds.clock.advance(1000)

    rounds.run(copy_ms_max=1000)

    assert (rounds.ends, (0, 3) in rounds.fetched(is_inspection=True)) == ([[2]], True)
    assert rounds.metadata.image.partition(KEY).isr == {1, 3}


def test_a_look_takes_out_a_member_that_the_round_has_not_copied_to():
    """Only what a copy has brought says that a member gains."""
    waves = CopyWaves(FakeClock())

    [judged] = waves.look([ORDER], [fetched(40, 30, missing_bytes=100)])

    assert judged.followers[0].missing_bytes == 100


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
    assert rounds.ends == [[1], [2], [3]]
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


def test_a_large_copy_shares_no_later_wave_with_those_that_have_come_to_their_ends():
    """Each append brings a partition into the next wave, where little is to be copied of it."""
    orders = [replace(ORDER, key=PartitionKey(TOPIC_ID, number)) for number in range(100)]
    large, small = fetched(40, 30, copied_bytes=300, missing_bytes=100), fetched(1, 1)
    waves = CopyWaves(FakeClock())
    first = waves.begin(image_of(), [], orders)
    waves.end(orders, [large, *[small] * 99])

    later = waves.begin(image_of(), [], orders)

    assert {each.copy_ms_max for each in first} == {copy_waves.WAVE_MS_MAX // 100}
    assert {each.copy_ms_max for each in later} == {copy_waves.FETCH_MS_MAX}


def test_what_a_later_wave_finds_first_shares_it():
    """A reassignment may begin during a round, and a thousand large copies with it."""
    orders = [replace(ORDER, key=PartitionKey(TOPIC_ID, number)) for number in range(100)]
    waves = CopyWaves(FakeClock())
    waves.begin(image_of(), [], orders[:1])
    waves.end(orders[:1], [fetched(40, 30, copied_bytes=300, missing_bytes=100)])

    later = waves.begin(image_of(), [], orders)

    assert {each.copy_ms_max for each in later} == {copy_waves.WAVE_MS_MAX // 100}


def test_a_copy_from_a_new_leader_ends_where_that_one_s_shorter_log_ends():
    """Each wave would else bring what was just appended, until the old leader's end is reached."""
    waves = CopyWaves(FakeClock())

    for leader_end, end in ((1000, 300), (990, 990)):
        waves.end([ORDER], [fetched(leader_end, end, copied_bytes=300)])

    assert not waves.is_more_left


def test_a_later_wave_fetches_what_has_changed_and_not_all_that_has_work():
    """Of many partitions that wait for a broker, each wave would else look at each."""
    before = partition("1 2 3", isr="1 2")
    image = image_of(before, before)
    waves = CopyWaves(FakeClock())
    waves.begin(image, [key for key, _ in image.partitions()], [])
    waves.end([], [])
    topic = image.topics[TOPIC_ID]
    changed = replace(topic, partitions={**topic.partitions, 0: replace(before, log_end_offset=1)})

    assert waves.next_keys(image, None) == []
    assert waves.next_keys(replace(image, topics={TOPIC_ID: changed}), None) == [KEY]
