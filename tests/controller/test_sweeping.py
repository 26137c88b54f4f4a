"""Processes share a sweep: long ones, jobs that end, at the same time, and with lost hints."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.controller.scheduler import SCOPES_MAX, Scheduler
from tests.builders import TOPIC_ID, image_of, partition
from tests.examples import many
from tests.fakes import FakeClock, MemoryHintRoots

INTERVAL_MS = 600_000
MINUTE_MS = 60_000


def image_with(count):
    return image_of(*[partition("1 2 3")] * count)


def key(number):
    return PartitionKey(TOPIC_ID, number)


class Processes:
    """Processes on one metadata root, with a clock; inspections take time."""

    def __init__(self, count, *, inspection_ms=0, share="0.1"):
        self.image = image_with(count)
        self.clock = FakeClock()
        self.hints = MemoryHintRoots()
        self.kept = {}
        self.inspected_ms = {}
        self.inspection_ms = inspection_ms
        self.settings = Settings(({"replica.sweep.share": share},))
        self.failing = set()
        self.random_below = lambda below: below // 2
        self.sweep_round = None

    def have(self, count):
        """Have so many partitions from now on."""
        self.image, seen_ms = image_with(count), self.inspected_ms
        self.inspected_ms = {
            each: seen_ms.get(each, self.clock.now_ms()) for each, _ in self.image.partitions()
        }

    def new_process(self):
        return Scheduler(
            self.clock, self.hints, random_below=lambda below: self.random_below(below)
        )

    def run(self, process=None, *, scope=None, is_all=False):
        """Do a round, in a process that goes on or (None) in one of its own; return its keys."""
        sweep = self.kept.setdefault(process, self.new_process()) if process else self.new_process()
        began_ms = self.clock.now_ms()
        sweep_round = self.sweep_round = sweep.begin(
            self.image, scope, self.settings, as_of_ms=self.clock.monotonic_ms(), is_all=is_all
        )
        inspected = []
        while keys := sweep_round.next_keys():
            self.clock.advance(self.inspection_ms * len(keys))
            inspected.extend(keys)
            failed = self.failing & {*keys}
            sweep_round.record_inspected(
                keys, failed=failed, took_ms=self.inspection_ms * len(keys)
            )
            self.inspected_ms |= dict.fromkeys({*keys} - failed, began_ms)
            if is_all:
                break
        sweep.keep(self.image, scope, sweep_round)
        return inspected

    def late(self):
        """Return the partitions that were not inspected within the interval."""
        now_ms = self.clock.now_ms()
        return [
            each
            for each, _ in self.image.partitions()
            if now_ms - self.inspected_ms.get(each, now_ms - INTERVAL_MS) >= INTERVAL_MS
        ]

    def not_inspected_count(self, leaderless=()):
        return self.sweep_round.not_inspected_count(leaderless)


turns = st.lists(
    st.tuples(
        st.integers(0, INTERVAL_MS),
        st.sampled_from([None, None, "a", "b"]),
        st.sampled_from([False, False, False, True]),
        st.sampled_from([None, None, None, 1, 7, 20, 30]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=many(200))
@given(st.integers(1, 30), turns)
def test_each_partition_is_inspected_within_the_interval_whichever_process_runs_the_rounds(
    count, position
):
    """Partitions come and go; nobody has to have inspected one before it came."""
    processes = Processes(count)
    for pause_ms, process, is_hint_lost, count_now in position:
        processes.clock.advance(pause_ms)
        if is_hint_lost:
            processes.hints.hint = None
        if count_now is not None:
            processes.have(count_now)

        processes.run(process)

        assert processes.late() == []
        assert processes.not_inspected_count() == 0


def test_a_round_inspects_no_longer_than_its_share_allows():
    processes = Processes(10_000, inspection_ms=10)
    processes.run()
    found = []

    for _ in range(5):
        processes.clock.advance(MINUTE_MS)
        found.append(len(processes.run()))

    # A tenth of a minute at 10 ms each, and of the time that the round before took.
    assert all(600 <= each <= 680 for each in found), found
    assert processes.not_inspected_count() > 6000


def test_failed_inspections_come_first_in_the_next_round():
    processes = Processes(20)
    processes.failing = {key(3), key(15)}
    processes.run()
    assert processes.not_inspected_count() == 2
    processes.clock.advance(MINUTE_MS)
    processes.failing = {key(15)}

    keys = processes.run()

    assert {*keys[:2]} == {key(3), key(15)}
    assert processes.sweep_round.position.again == (key(15),)
    assert processes.not_inspected_count() == 1
    processes.have(15)
    processes.run()
    assert processes.sweep_round.position.again == (), "it is gone"


def test_a_hint_of_the_future_is_none():
    processes = Processes(40)
    processes.run()
    processes.clock.advance(-1)

    assert len(processes.run()) == 40


def test_with_everything_failing_nothing_counts_as_inspected():
    processes = Processes(300)
    processes.failing = {key(number) for number in range(300)}

    for _ in range(5):
        processes.run("a")
        processes.clock.advance(MINUTE_MS)

        assert processes.not_inspected_count() == 300
    assert processes.hints.hint is None, "it has no room for so many"


def test_a_sweep_inspects_all_at_once_and_nothing_is_owed_then():
    processes = Processes(500, inspection_ms=100)
    processes.run()
    assert processes.not_inspected_count() > 0

    keys = processes.run(is_all=True)

    assert sorted(keys) == [key(number) for number in range(500)]
    assert processes.not_inspected_count() == 0
    assert len(processes.run()) < 50  # what fell due while it inspected


def test_choices_of_topics_that_are_remembered_have_a_bound():
    processes = Processes(3)
    for number in range(3 * SCOPES_MAX):
        processes.run("a", scope=frozenset({TopicId(f"topic{number}")}))

    assert len(processes.kept["a"]._progress) == SCOPES_MAX


def test_a_root_that_keeps_no_hint_keeps_no_round():
    processes = Processes(5)
    processes.hints.is_offline = True

    assert len(processes.run()) == len(processes.run()) == 5


@pytest.mark.parametrize("is_hint_lost", [False, True])
def test_cron_jobs_with_time_for_a_tenth_come_to_every_partition(is_hint_lost):
    """Wherever a job begins: by the hint, or where chance says."""
    processes = Processes(100, inspection_ms=100, share="0")
    draws = iter(range(10**6))
    processes.random_below = lambda below: next(draws) * 37 % below
    for _ in range(40):
        if is_hint_lost:
            processes.hints.hint = None
        began_ms = processes.clock.now_ms()
        processes.run()
        processes.clock.advance(began_ms + INTERVAL_MS - processes.clock.now_ms())

    assert len(processes.inspected_ms) == 100
