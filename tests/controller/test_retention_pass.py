"""Passes of retention: which partitions are looked at, what is decided, and what is remembered."""

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.controller import cleanup_policy, scheduler
from kafka_on_spark.controller.cleanup_policy import (
    INSPECT_AGAIN_MS_MAX,
    CleanupOrder,
    RetentionPass,
    inspect_for_retention,
)
from kafka_on_spark.controller.log_start import RetentionReport
from kafka_on_spark.log import operations
from kafka_on_spark.log.replica_upkeep import upkeep_task
from kafka_on_spark.log.retention import Retained, limits_of
from kafka_on_spark.log.upkeep_work import UpkeepResult, WorkDone
from tests.builders import (
    KEY,
    NOW_MS,
    TOPIC_ID,
    address,
    disk,
    image_of,
    partition,
    partition_map,
    staged,
)
from tests.committing import Metadata
from tests.fakes import FakeClock, MemoryReplicaStore, MemoryRoots
from tests.nodes import node_of

SETTINGS = Settings(({"retention.ms": "1000"},))

LATER_MS = NOW_MS + 5000


@pytest.fixture
def replicas():
    roots = MemoryRoots({"memory://1": disk(1)})
    store = MemoryReplicaStore(roots)
    store.create(address(), leader_epoch=0)
    log = store.open(address())
    for name in "abc":
        state = log.load()
        change = operations.append(state, staged(name), leader_epoch=0, now_ms=NOW_MS)
        log.commit(state, change)
    return store


def order(replicas, **fields):
    state = replicas.open(address()).load()
    registered = partition(
        "1 2",
        epoch=0,
        hw=3,
        hw_epoch=0,
        hw_chain=state.chain_at(3),
        **fields,
    )
    return CleanupOrder(
        key=KEY,
        partition=registered,
        addresses=(address(),),
        settings=SETTINGS,
        now_ms=LATER_MS,
        commit_ms=LATER_MS,
    )


def look(replicas, asked, root_ms=LATER_MS):
    return inspect_for_retention(
        asked, SimpleNamespace(replicas=replicas, root_now_ms=lambda address: root_ms)
    )


def test_a_root_that_tells_no_time_deletes_nothing(replicas):
    def refuse(address):
        raise KafkaStorageError("takes no writes")

    worker = SimpleNamespace(replicas=replicas, root_now_ms=refuse)
    assert inspect_for_retention(order(replicas), worker).error == "takes no writes"


# fmt: off
REFUSED = [
    pytest.param({"hw": 4},                    "committed",      id="shorter-than-what-is-committed"),
    pytest.param({"hw_chain": "f" * 32},       "committed",      id="another-log-under-the-same-epoch"),
]

# fmt: on


@pytest.mark.parametrize("fields, words", REFUSED)
def test_only_the_leader_s_own_complete_log_says_anything(replicas, fields, words):
    asked = order(replicas)
    known = asked.partition
    changed = replace(
        known,
        high_watermark=fields.get("hw", known.high_watermark),
        high_watermark_chain=fields.get("hw_chain", known.high_watermark_chain),
        log_end_offset=4,
    )

    result = look(replicas, replace(asked, partition=changed))

    assert words in result.error


def test_a_leader_says_the_same_before_it_has_begun_its_leadership(replicas):
    asked = order(replicas)
    elected = replace(asked.partition, leader_epoch=asked.partition.leader_epoch + 1)

    before = look(replicas, asked)
    after = look(replicas, replace(asked, partition=elected))

    assert after == replace(before, leader_epoch=elected.leader_epoch)
    assert before.found.removed_bytes > 0


HOUR_MS = 3_600_000

INTERVAL_MS = 300_000  # log.retention.check.interval.ms

CONFIGS = {"retention.ms": "1000"}


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
        self.expires_in_ms = HOUR_MS
        self.before_commit = lambda: None
        self.retention = RetentionPass(
            node_of(
                self.metadata,
                self.clock,
                given={inspect_for_retention: self.look, upkeep_task: self.tell},
            )
        )

    def look(self, orders):
        results = []
        for order in orders:
            number = order.key.partition
            self.looked_at.append(number)
            self.clock.advance(self.look_ms)
            if number in self.errors:
                results.append(WorkDone(error=self.errors[number]))
                continue
            expires_at_ms = None
            if self.expires_in_ms is not None:
                expires_at_ms = self.clock.now_ms() + self.expires_in_ms
            found = Retained(
                log_start_offset=self.keeps_from.get(number, order.partition.log_start_offset),
                expired_to=0,
                newest_ms=None,
                removed_bytes=100,
                kept_bytes=0,
                expires_at_ms=expires_at_ms,
            )
            results.append(
                RetentionReport(
                    key=order.key,
                    leader_epoch=order.partition.leader_epoch,
                    partition_epoch=order.partition.partition_epoch,
                    log_start_offset=order.partition.log_start_offset,
                    limits=limits_of(order.settings),
                    now_ms=order.now_ms,
                    found=found,
                )
            )
        self.before_commit()
        return results

    def tell(self, orders):
        self.told += [
            (each.key.partition, each.address.broker_id, each.partition.log_start_offset)
            for each in orders
        ]
        return [UpkeepResult(key=each.key, broker_id=1, done=()) for each in orders]

    def run(self, **arguments):
        self.looked_at.clear()
        return self.retention.run(**arguments)

    def change(self, **fields):
        """Have the first partition, or its topic's settings, be another."""
        topic = self.metadata.image.topics[TOPIC_ID]
        configs = fields.pop("configs", topic.configs)
        if fields:
            topic = replace(
                topic, partitions=partition_map({0: partition("1 2", hw_epoch=1, **fields)})
            )
        topics = {TOPIC_ID: replace(topic, configs=configs)}
        self.metadata.image = replace(self.metadata.image, topics=topics)

    def starts(self):
        return [each.log_start_offset for _, each in sorted(self.metadata.image.partitions())]


def with_records(**fields):
    return partition("1 2", hw=8, hw_epoch=1, **fields)


def test_new_log_starts_of_all_partitions_are_one_commit_and_replicas_are_told():
    world = World(with_records(), with_records(), with_records())
    world.keeps_from = {0: 3, 2: 5}

    results = world.run()

    assert world.starts() == [3, 0, 5]
    assert world.metadata.commits == 1
    assert world.told == [(0, 1, 3), (0, 2, 3), (2, 1, 5), (2, 2, 5)]
    works = [(each.key.partition, work) for each in results for _, work in each.done]
    assert [(number, work.count, work.size_bytes) for number, work in works] == [
        (0, 3, 100),
        (1, 0, 0),
        (2, 5, 100),
    ]


BOTH = {"retention.ms": "1000", "retention.bytes": "500"}

SIZE = {"retention.bytes": "500", "retention.ms": "-1"}

# fmt: off
DUE = [  # settings, expires in (ms), the partition of then, what a pass later finds, due after (ms), None: never
    pytest.param(CONFIGS, HOUR_MS // 2, {},                 HOUR_MS // 2,      id="when-a-batch-expires"),
    pytest.param(CONFIGS, 7,            {},                 INTERVAL_MS,       id="not-before-the-interval-is-over"),
    pytest.param(CONFIGS, 10**12,       {},                 INSPECT_AGAIN_MS_MAX, id="a-wrong-clock-is-put-right-some-day"),
    pytest.param(CONFIGS, HOUR_MS // 2, {"hw": 9},          HOUR_MS // 2,      id="growth-does-not-age-it"),
    pytest.param(CONFIGS, None,         {"hw": 9},          INTERVAL_MS,       id="it-was-empty-and-has-grown"),
    pytest.param(SIZE,    None,         {},                 None,              id="nothing-was-added"),
    pytest.param(SIZE,    None,         {"hw": 9},          INTERVAL_MS,       id="it-has-grown"),
    pytest.param(BOTH,    HOUR_MS // 2, {"hw": 9},          INTERVAL_MS,       id="it-has-grown-and-ages"),
    pytest.param(CONFIGS, HOUR_MS // 2, {"configs": BOTH},  INTERVAL_MS,       id="other-settings"),
]

# fmt: on


@pytest.mark.parametrize("configs, expires_in_ms, change, due_ms", DUE)
def test_when_a_partition_is_looked_at_again(configs, expires_in_ms, change, due_ms, monkeypatch):
    monkeypatch.setattr(scheduler, "REST_PART", INTERVAL_MS + 1)
    world = World(with_records(), configs=configs)
    world.expires_in_ms = expires_in_ms
    world.run()
    world.change(**change)

    ends = [INTERVAL_MS, HOUR_MS // 2, INSPECT_AGAIN_MS_MAX]
    seen = []
    for at_ms in sorted({*ends, *(each - 1 for each in ends)}):
        world.clock.advance(at_ms - world.clock.monotonic_ms())
        world.run()
        if world.looked_at:
            seen.append(at_ms)
            break

    assert seen == ([] if due_ms is None else [due_ms])


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_topics_that_keep_everything_are_not_looked_at(policy):
    configs = {"cleanup.policy": policy, "retention.ms": "1000" if policy == "compact" else "-1"}

    world = World(with_records(), configs=configs)
    world.run()
    assert world.looked_at == []


def test_a_failed_look_is_reported_and_the_others_count():
    world = World(with_records(), with_records())
    world.errors, world.keeps_from = {0: "does not answer"}, {1: 4}

    results = world.run()

    errors = [(each.key.partition, work.error) for each in results for _, work in each.done]
    assert errors == [(0, "does not answer"), (1, "")]
    assert world.starts() == [0, 4]


def elect_before_commit(world):
    """Have partition 0 led anew, between a look and its decision."""

    def elect():
        topic = world.metadata.image.topics[TOPIC_ID]
        elected = {0: with_records(epoch=6), 1: topic.partitions[1]}
        changed = replace(topic, partitions=partition_map(elected))
        world.metadata.image = replace(world.metadata.image, topics={TOPIC_ID: changed})

    world.before_commit = elect


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
    world.keeps_from, world.expires_in_ms = {0: 8}, None
    prevent(world)
    with suppress(KafkaOnSparkError):
        world.run()
    assert world.starts() == [0, 0]
    commit_again(world)

    world.run()
    assert world.looked_at == []
    world.clock.advance(INTERVAL_MS)
    world.run()

    assert (world.looked_at, world.starts()) == ([0], [8, 0])


def test_a_pass_ends_after_its_time_and_the_next_goes_on_with_those_that_wait_longest(monkeypatch):
    monkeypatch.setattr(cleanup_policy, "INSPECTIONS_AT_ONCE", 2)
    world = World(*[with_records()] * 5)
    world.look_ms = cleanup_policy.PASS_MS_MAX

    def seen(**given):
        world.run(**given)
        return list(world.looked_at)

    assert [seen(), seen(), seen()] == [[0, 1], [2, 3], [4]]
    assert seen(is_all=True) == [0, 1, 2, 3, 4], "maintain looks at all, however long that takes"


def test_a_controller_commits_under_its_own_term():
    world, submitted = World(with_records()), []
    world.keeps_from = {0: 3}

    def submit(decide):
        submitted.append(decide(world.metadata.image))
        return submitted[-1].response

    world.run(submit=submit)

    assert world.metadata.commits == 0
    assert [len(each.records) for each in submitted] == [1]


def test_a_dry_run_tells_what_would_be_done_and_commits_nothing():
    world = World(with_records(), with_records(), with_records())
    world.keeps_from, world.errors = {0: 3}, {1: "a file is damaged"}

    told = world.run(is_all=True, is_dry_run=True)
    assert (world.metadata.commits, world.told) == (0, [])

    assert world.run(is_all=True) == told
    assert world.metadata.commits == 1
