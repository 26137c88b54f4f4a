"""Passes of retention: which partitions are looked at, what is decided, and what is remembered."""

from contextlib import suppress
from dataclasses import replace
from threading import Thread

import pytest

from kafka_on_spark.controller.pace.sweep import Ring
from kafka_on_spark.controller.partitions.log_start import LeaderLook
from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.log.upkeep.retention import Retained
from kafka_on_spark.service.retain import retention
from kafka_on_spark.service.retain.leader_looks import LookResult
from kafka_on_spark.service.retain.retention import Retention
from tests.builders import KEY, TOPIC, TOPIC_ID, image_of, partition
from tests.committing import replay
from tests.fakes import FakeClock

HOUR_MS = 3_600_000
INTERVAL_MS = 300_000  # log.retention.check.interval.ms
WAIT_MS = INTERVAL_MS // 2
CONFIGS = {"retention.ms": "1000"}


class Metadata:
    """Has an image, and commits to it."""

    def __init__(self, image):
        self.image = image
        self.commits = 0

    def submit(self, decide, *, timeout_ms):
        result = decide(self.image)
        if result.records:
            self.commits += 1
            self.image = replay(self.image, result)
        return result.response


class World:
    """Partitions whose logs keep records from an offset on; a look takes some time."""

    def __init__(self, *partitions, configs=CONFIGS, **fields):
        self.metadata = Metadata(image_of(*partitions, configs=configs, **fields))
        self.clock = FakeClock()
        self.keeps_from = {}
        self.errors = {}
        self.look_ms = 0
        self.looked_at = []
        self.told = []
        self.leaves_nothing = False
        self.before_commit = lambda: None
        self.process()

    def process(self):
        self.retention = Retention(
            self.metadata,
            self.clock,
            self.clock,
            run_looks=self.look,
            run_log_starts=self.tell,
            random_below=lambda below: 0,
            timeout_ms=1000,
        )

    def look(self, orders):
        results = []
        for order in orders:
            number = order.key.partition
            self.looked_at.append(number)
            self.clock.advance(self.look_ms)
            if number in self.errors:
                results.append(LookResult(error=self.errors[number]))
                continue
            found = Retained(
                log_start_offset=self.keeps_from.get(number, order.partition.log_start_offset),
                expired_to=0,
                newest_ms=None,
                removed_bytes=100,
                kept_bytes=0,
                kept_batches=1,
                expires_at_ms=None if self.leaves_nothing else self.clock.now_ms() + HOUR_MS,
            )
            results.append(
                LookResult(
                    look=LeaderLook(
                        key=order.key,
                        leader_epoch=order.partition.leader_epoch,
                        partition_epoch=order.partition.partition_epoch,
                        log_start_offset=order.partition.log_start_offset,
                        limits=order.limits,
                        now_ms=order.now_ms,
                        found=found,
                    )
                )
            )
        self.before_commit()
        return results

    def tell(self, orders):
        self.told += [
            (each.address.key.partition, each.address.broker_id, each.log_start_offset)
            for each in orders
        ]
        return [None] * len(orders)

    def run(self, **arguments):
        self.looked_at.clear()
        return self.retention.run(**arguments)

    def starts(self):
        return [each.log_start_offset for _, each in sorted(self.metadata.image.partitions())]


def with_records(**fields):
    return partition("1 2", hw=8, hw_epoch=1, **fields)


def test_new_log_starts_of_all_partitions_are_one_commit_and_replicas_are_told():
    world = World(with_records(), with_records(), with_records())
    world.keeps_from = {0: 3, 2: 5}

    report = world.run()

    assert world.starts() == [3, 0, 5]
    assert world.metadata.commits == 1
    assert world.told == [(0, 1, 3), (0, 2, 3), (2, 1, 5), (2, 2, 5)]
    assert (report.looked_at, report.deleted_records) == (3, 8)
    assert [(row.partition, row.count, row.size_bytes) for row in report.rows] == [
        (0, 3, 100),
        (2, 5, 100),
    ]
    assert report.log_starts == {(TOPIC, 0): 3, (TOPIC, 2): 5}
    assert report.is_done


def test_nothing_to_delete_is_no_commit():
    world = World(with_records())

    assert world.run().looked_at == 1
    assert world.metadata.commits == 0


def test_a_partition_is_looked_at_again_when_it_is_due():
    world = World(with_records())
    world.run()

    assert world.run().looked_at == 0
    world.clock.advance(HOUR_MS - 1)
    assert world.run().looked_at == 0
    world.clock.advance(WAIT_MS)
    assert world.run().looked_at == 1


def asked(world, monkeypatch):
    """Return the list that gets the partitions that passes ask their memory about."""
    found = []

    def is_due(partition, limits, last, monotonic_ms):
        found.append(partition.high_watermark)
        return last is None

    monkeypatch.setattr(retention, "is_due", is_due)
    return found


def test_after_a_whole_lap_nothing_is_asked_for_half_of_the_interval(monkeypatch):
    monkeypatch.setattr(retention, "PLACES_A_PASS_MAX", 2)
    world = World(*[with_records()] * 3)
    partitions = asked(world, monkeypatch)

    counts = []
    for wait_ms in (0, 0, 0, WAIT_MS - 1, 1, 0):
        world.clock.advance(wait_ms)
        world.run()
        counts.append(len(partitions))

    assert counts == [2, 3, 3, 3, 5, 6]  # with the second one, a lap of three is whole


def test_a_change_of_partitions_or_settings_ends_the_wait(monkeypatch):
    world = World(with_records())
    partitions = asked(world, monkeypatch)
    world.run()
    image = world.metadata.image

    for changed in ({"topics": {**image.topics}}, {"configs": {}}, {"groups": {}}):
        world.metadata.image = replace(world.metadata.image, **changed)
        world.run()

    assert len(partitions) == 3  # the positions of groups make nothing due


def test_a_lap_is_whole_only_without_a_pass_that_has_left_something(monkeypatch):
    monkeypatch.setattr(retention, "LOOKS_AT_ONCE", 1)
    world = World(*[with_records()] * 2)
    world.look_ms = retention.LOOK_MS_MAX
    partitions = asked(world, monkeypatch)

    for _ in range(4):
        world.run()

    # The first pass has left one. The second one begins there, and its lap is whole.
    assert (len(partitions), world.looked_at) == (4, [])


def test_passes_of_two_threads_over_the_same_places_are_no_lap(monkeypatch):
    monkeypatch.setattr(retention, "PLACES_A_PASS_MAX", 2)
    world = World(*[with_records()] * 4)
    partitions = asked(world, monkeypatch)

    for _ in range(2):
        world.retention._begins_at = PartitionKey(TOPIC_ID, 0)  # read before the other wrote it
        world.run()
    world.run()

    assert len(partitions) == 6


def test_a_partition_whose_settings_changed_is_looked_at_at_once():
    world = World(with_records())
    world.run()
    topic = world.metadata.image.topics[TOPIC_ID]
    changed = replace(topic, configs={"retention.ms": "5"})
    world.metadata.image = replace(world.metadata.image, topics={TOPIC_ID: changed})

    assert world.run().looked_at == 1


def test_all_are_looked_at_if_that_is_asked_for_due_or_not():
    world = World(with_records(), with_records())
    world.run()

    assert world.run(is_all=True).looked_at == 2


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_topics_that_keep_everything_are_not_looked_at(policy):
    configs = {"cleanup.policy": policy, "retention.ms": "1000" if policy == "compact" else "-1"}

    assert World(with_records(), configs=configs).run().looked_at == 0


def test_a_failed_look_is_reported_and_the_others_count():
    world = World(with_records(), with_records())
    world.errors, world.keeps_from = {0: "does not answer"}, {1: 4}

    report = world.run()

    assert [(row.partition, row.error) for row in report.rows] == [(0, "does not answer"), (1, "")]
    assert world.starts() == [0, 4]


def elect_before_commit(world):
    """Have partition 0 led anew, between a look and its decision."""

    def elect():
        topic = world.metadata.image.topics[TOPIC_ID]
        elected = {0: with_records(epoch=6), 1: topic.partitions[1]}
        changed = replace(topic, partitions=elected)
        world.metadata.image = replace(world.metadata.image, topics={TOPIC_ID: changed})

    world.before_commit = elect


def test_what_changed_between_look_and_commit_is_left_alone():
    world = World(with_records(), with_records())
    world.keeps_from = {0: 3, 1: 3}
    elect_before_commit(world)

    assert world.run().log_starts == {(TOPIC, 1): 3}
    assert world.starts() == [0, 3]


def fail_to_commit(world):
    def refuse(decide, *, timeout_ms):
        raise KafkaStorageError("the metadata root does not answer")

    world.metadata.submit = refuse


def commit_again(world):
    world.before_commit = lambda: None
    vars(world.metadata).pop("submit", None)


# fmt: off
UNDECIDED = [
    pytest.param(elect_before_commit, id="its-partition-is-led-anew-by-then"),
    pytest.param(fail_to_commit,      id="the-metadata-log-refuses-it"),
]
# fmt: on


@pytest.mark.parametrize("prevent", UNDECIDED)
def test_a_look_whose_deletion_was_not_committed_is_made_again_after_an_interval(prevent):
    """All that is left of an idle partition is too old: nothing else would ever make it due."""
    world = World(with_records(), with_records())
    world.keeps_from, world.leaves_nothing = {0: 8}, True
    prevent(world)
    with suppress(KafkaOnSparkError):
        world.run()
    assert world.starts() == [0, 0]
    commit_again(world)

    assert world.run().looked_at == 0
    world.clock.advance(INTERVAL_MS)
    world.run()

    assert (world.looked_at, world.starts()) == ([0], [8, 0])


def test_a_pass_is_bounded_and_the_next_one_goes_on(monkeypatch):
    monkeypatch.setattr(retention, "LOOKS_AT_ONCE", 2)
    world = World(*[with_records()] * 5)
    world.look_ms = retention.LOOK_MS_MAX

    seen = []
    for _ in range(3):
        report = world.run()
        seen.append((list(world.looked_at), report.is_done))

    assert seen == [([0, 1], False), ([2, 3], False), ([4], True)]


def test_a_pass_asks_its_memory_about_a_part_of_the_ring_only(monkeypatch):
    monkeypatch.setattr(retention, "PLACES_A_PASS_MAX", 2)
    world = World(*[with_records()] * 5)

    assert [world.run() and list(world.looked_at) for _ in range(3)] == [[0, 1], [2, 3], [4]]


def test_a_new_process_begins_anywhere():
    world = World(*[with_records()] * 3)
    world.retention._random_below = lambda below: 2
    world.run()

    assert world.looked_at == [2, 0, 1]


def test_a_pass_forgets_deleted_partitions_while_another_thread_s_remembers_a_look(monkeypatch):
    world = World(*[with_records()] * 4)
    world.run(keys=[PartitionKey(TOPIC_ID, number) for number in (0, 2, 3)])
    topic = world.metadata.image.topic(TOPIC)
    left = replace(topic, partitions={number: topic.partitions[number] for number in (0, 1)})
    world.metadata.image = replace(world.metadata.image, topics={TOPIC_ID: left})
    is_in = Ring.__contains__
    others = []

    def with_another_pass(ring, key):
        if not others:
            keys = [PartitionKey(TOPIC_ID, 1)]
            others.append(Thread(target=world.retention.run, args=(keys,)))
            others[0].start()
            others[0].join()
        return is_in(ring, key)

    monkeypatch.setattr(Ring, "__contains__", with_another_pass)
    world.run()

    assert world.looked_at == [1]
    assert [key.partition for key in world.retention._last] == [0, 1]


def test_only_the_partitions_that_are_asked_for_are_looked_at():
    world = World(with_records(), with_records())

    world.run(keys=[KEY, PartitionKey(TOPIC_ID, 7)])

    assert world.looked_at == [0]


def test_a_cluster_without_topics_has_nothing_to_delete():
    world = World()
    world.metadata.image = replace(world.metadata.image, topics={}, topic_ids={})

    assert world.run().is_done
