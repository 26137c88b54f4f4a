"""When partitions are due, by what a process knows of its visits; and what that costs for many."""

import time
from math import inf

import pytest

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.cleanup_policy import inspect_for_compaction, inspect_for_retention
from kafka_on_spark.controller.scheduler import DueTimes, scheduler
from kafka_on_spark.controller.upkeep import Upkeep, clean_root_task
from kafka_on_spark.log.replica_upkeep import upkeep_task
from kafka_on_spark.node.node import hint_roots
from tests.builders import TOPIC_ID, image_of, partition
from tests.committing import Metadata
from tests.fakes import FakeClock, MemoryHintRoots
from tests.nodes import node_of

INTERVAL_MS = 60_000  # log.cleaner.interval.ms
IDLE_MS = 600_000
MANY = 100_000


def key(number):
    return PartitionKey(TOPIC_ID, number)


class Visits:
    """Partitions of one topic, and visits of those that are due, for which there is time."""

    def __init__(self, count, first=0):
        self.clock = FakeClock()
        self.ends = [0] * count
        self.configs = {}
        self.times = DueTimes("log.cleaner.interval.ms", lambda below: first)

    @property
    def image(self):
        return image_of(*(partition("1 2 3", hw=end) for end in self.ends), configs=self.configs)

    def run(self, after_ms=0, most=None, due_in_ms=IDLE_MS):
        """Visit as many as there is time for; return which."""
        self.clock.advance(after_ms)
        image, now_ms = self.image, self.clock.monotonic_ms()
        due = self.times.due(image, image.partitions(), now_ms)[:most]
        for each in due:
            settings = image.settings(each.topic_id)
            self.times.record(
                each, image.partition(each), settings, at_ms=now_ms, due_at_ms=now_ms + due_in_ms
            )
        return [each.partition for each in due]


def change_a_partition(visits):
    visits.ends[1] += 1
    return [1]


def change_settings(visits):
    visits.configs = {"retention.ms": "7"}
    return [0, 1, 2]


@pytest.mark.parametrize("change", [change_a_partition, change_settings])
def test_what_has_changed_is_due_an_interval_after_its_last_visit(change):
    visits = Visits(3)
    visits.run()
    changed = change(visits)

    assert visits.run(INTERVAL_MS - 1) == []
    assert visits.run(1) == changed


def test_a_process_begins_where_chance_says():
    assert Visits(4, first=3).run() == [3, 0, 1, 2]


@pytest.mark.parametrize("pass_ms", [2_000, 60_000, 7 * 60_000])
def test_every_partition_is_visited_in_time_whatever_changes(pass_ms):
    """With time for a tenth of all in each pass, or for as many as an interval needs."""
    count = 50
    visits, seen_ms, changed_ms = Visits(count), [0] * count, [-1] * count
    most = max(5, count * pass_ms // INTERVAL_MS)
    for number in range(200):
        changed = (number * 7) % count
        visits.ends[changed] += 1
        changed_ms[changed] = max(changed_ms[changed], visits.clock.monotonic_ms())
        seen = visits.run(pass_ms, most)
        now_ms = visits.clock.monotonic_ms()
        for each in seen:
            seen_ms[each] = now_ms
        for seen_at_ms, changed_at_ms in zip(seen_ms, changed_ms, strict=True):
            due_ms = seen_at_ms + IDLE_MS
            if changed_at_ms >= seen_at_ms:
                due_ms = min(due_ms, max(changed_at_ms, seen_at_ms + INTERVAL_MS))
            assert now_ms - due_ms < 2 * pass_ms


class Cluster:
    """A process that has visited all of many partitions."""

    def __init__(self, count):
        self.clock = FakeClock()
        self.metadata = Metadata(image_of(*[partition("1 2 3", hw=9)] * count))
        self.asked = []
        self.node = node_of(
            self.metadata,
            self.clock,
            given={
                each: lambda orders: self.asked.append(orders)
                for each in (upkeep_task, inspect_for_retention, inspect_for_compaction)
            }
            | {clean_root_task: lambda orders: [None] * len(orders)},
            parts={hint_roots: MemoryHintRoots()},
        )
        self.upkeep = self.node.part(Upkeep)
        image, now_ms = self.metadata.image, self.clock.monotonic_ms()
        settings = image.settings(TOPIC_ID)
        for times in (self.upkeep._times, *(each._times for each in self.upkeep.passes)):
            for each, registered in image.partitions():
                times.record(each, registered, settings, at_ms=now_ms, due_at_ms=inf)


@pytest.mark.long
def test_a_pass_over_many_partitions_that_finds_nothing_takes_a_moment():
    cluster = Cluster(MANY)
    cluster.upkeep.run_share()
    cluster.clock.advance(IDLE_MS)
    image, progress = cluster.metadata.image, cluster.node.part(scheduler)

    began_s = time.process_time()
    report = cluster.upkeep.run_share()
    as_of_ms = cluster.clock.monotonic_ms()
    begun = progress.begin(image, None, image.settings(), as_of_ms=as_of_ms)
    keys = begun.next_keys()
    progress.keep(image, None, begun)
    took_s = time.process_time() - began_s

    assert (report.visited, cluster.asked, len(keys)) == (0, [], 16)
    assert took_s <= 2
