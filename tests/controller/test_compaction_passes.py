"""Passes of compaction: which partitions are looked at, what is decided, and what is remembered."""

from collections import Counter
from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import KafkaStorageError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.controller import passes
from kafka_on_spark.controller.compaction import CompactionReport, ReplicaProgress
from kafka_on_spark.controller.compaction_passes import CompactionPasses
from kafka_on_spark.controller.passes import Look
from kafka_on_spark.log.dirt import Dirt
from kafka_on_spark.log.progress import CompactionProgress
from tests.builders import TOPIC, TOPIC_ID, image_of, partition
from tests.committing import replay
from tests.fakes import FakeClock

CONFIGS = {"cleanup.policy": "compact"}
BACKOFF_MS = 15_000


class Metadata:
    """Has an image, and commits to it."""

    def __init__(self, image):
        self.image = image
        self.commits = 0
        self.before_commit = lambda: None
        self.error = None

    def catch_up(self):
        return self.image

    def submit(self, decide, *, timeout_ms):
        self.before_commit()
        if self.error is not None:
            raise self.error
        result = decide(self.image)
        if result.records:
            self.commits += 1
            self.image = replay(self.image, result)
        return result.response


class World:
    """Partitions of which so much is dirty; a look takes some time."""

    def __init__(self, *partitions, configs=CONFIGS, **fields):
        self.metadata = Metadata(image_of(*partitions, configs=configs, **fields))
        self.clock = FakeClock()
        self.dirty_to = {}
        self.lags = set()
        self.errors = {}
        self.look_ms = 0
        self.looked_at = []
        self.first = 0
        self.process()

    def process(self):
        self.passes = CompactionPasses(
            self.metadata,
            self.clock,
            self.clock,
            run_looks=self.look,
            timeout_ms=1000,
            random_below=lambda count: self.first % count,
        )

    def look(self, orders):
        self.clock.advance(self.look_ms)
        return [self._look(order) for order in orders]

    def _look(self, order):
        number = order.key.partition
        self.looked_at.append(number)
        if number in self.errors:
            return Look(error=self.errors[number])
        now = order.partition.compaction
        end = Offset(self.dirty_to.get(number, 0))
        finished = CompactionProgress(
            compacted_below=now.compacted_below,
            tombstones_below=now.tombstones_below,
            finished_below=now.compacted_below,
        )
        seen = {
            each.broker_id: ReplicaProgress(
                each.replica_uuid,
                Offset(100),
                CompactionProgress() if each.broker_id in self.lags else finished,
            )
            for each in order.addresses
        }
        dirt = Dirt(now.compacted_below, end, 0, 100, order.now_ms - 1)
        if end <= now.compacted_below:
            dirt = Dirt(now.compacted_below, now.compacted_below, 100, 0, None)
        report = CompactionReport(
            key=order.key,
            leader_epoch=order.partition.leader_epoch,
            dirt=dirt,
            replicas=seen,
            cleaned_below=order.partition.compaction.cleaned_below,
            now_ms=order.now_ms,
            latest_ms=order.now_ms,
        )
        return Look(report=report)

    def seen(self, **given):
        """Make a pass; return the partitions that were looked at."""
        self.looked_at = []
        self.rows = self.passes.run(**given)
        return self.looked_at

    def decided(self):
        return [row.partition for row in self.rows if not row.error]

    def compacted(self, number=0):
        return self.metadata.image.partition(PartitionKey(TOPIC_ID, number)).compaction


def of_all(count, **fields):
    return [partition("1 2 3", hw=100, **fields) for _ in range(count)]


@pytest.mark.parametrize(
    "given, fields",
    [
        pytest.param({"configs": {"cleanup.policy": "delete"}}, {}, id="not compacted"),
        pytest.param({}, {"leader": None}, id="without a leader"),
        pytest.param({}, {"unmade": "1 2 3"}, id="not made yet"),
    ],
)
def test_a_partition_that_can_not_be_due_is_not_looked_at(given, fields):
    world = World(*of_all(1, **fields), **given)

    assert world.seen() == []


def test_an_empty_partition_is_not_looked_at():
    assert World(partition("1 2 3", hw=0)).seen() == []


def test_a_partition_is_looked_at_again_after_the_backoff_and_not_before(monkeypatch):
    monkeypatch.setattr(passes, "REST_PART", BACKOFF_MS + 1)
    world = World(*of_all(2))
    world.seen()

    world.clock.advance(BACKOFF_MS - 1)
    assert world.seen() == []
    world.clock.advance(1)
    assert world.seen() == [0, 1]


def test_once_all_were_looked_at_passes_rest_for_half_of_the_interval_or_until_settings_change():
    """Ten thousand topics are not asked in each pass."""
    world = World(*of_all(1))
    world.seen()
    topic = world.metadata.image.topic(TOPIC)
    more = replace(topic, partitions=dict(enumerate(of_all(2))))
    world.metadata.image = replace(world.metadata.image, topics={TOPIC_ID: more})

    world.clock.advance(BACKOFF_MS // 2 - 1)
    assert world.seen() == []
    world.clock.advance(1)
    assert world.seen() == [1]
    topic = replace(more, partitions=dict(enumerate(of_all(3))))
    changed = replace(world.metadata.image, topics={TOPIC_ID: topic}, configs={**CONFIGS})
    world.metadata.image = changed
    assert world.seen() == [2]


def test_maintain_looks_at_all_whenever_they_were_looked_at():
    world = World(*of_all(2))
    world.seen()

    assert world.seen(is_all=True) == [0, 1]


def test_a_pass_ends_after_its_time_and_the_next_goes_on_with_those_that_wait_longest(monkeypatch):
    monkeypatch.setattr(passes, "LOOKS_AT_ONCE", 2)
    world = World(*of_all(5))
    world.look_ms = passes.LOOK_MS_MAX

    assert world.seen() == [0, 1]
    assert world.seen() == [2, 3]
    assert world.seen() == [4]

    world.clock.advance(BACKOFF_MS)
    assert world.seen() == [0, 1]


def test_each_partition_gets_its_turn_also_if_more_is_due_than_passes_look_at(monkeypatch):
    """Those that were looked at are due again before the others have been looked at once."""
    monkeypatch.setattr(passes, "LOOKS_AT_ONCE", 2)
    world = World(*of_all(20))
    world.look_ms = passes.LOOK_MS_MAX
    seen = Counter()
    for _ in range(40):
        seen.update(world.seen())
        world.clock.advance(2000)

    assert set(seen.values()) == {4}


def test_processes_that_make_one_pass_come_to_all_partitions_together(monkeypatch):
    monkeypatch.setattr(passes, "LOOKS_AT_ONCE", 2)
    world = World(*of_all(4))
    world.look_ms = passes.LOOK_MS_MAX
    seen = []
    for world.first in (3, 1):
        world.process()
        seen += world.seen()

    assert seen == [3, 0, 1, 2]


def test_maintain_is_not_bounded_by_time(monkeypatch):
    monkeypatch.setattr(passes, "LOOKS_AT_ONCE", 2)
    world = World(*of_all(5))
    world.look_ms = passes.LOOK_MS_MAX

    assert world.seen(is_all=True) == [0, 1, 2, 3, 4]


def test_a_look_that_fails_holds_no_other_up():
    world = World(*of_all(2))
    world.dirty_to = {0: 40, 1: 40}
    world.errors = {0: "the root does not answer"}

    world.seen()

    assert [world.compacted(each).compacted_below for each in range(2)] == [0, 40]


def test_a_controller_commits_under_its_own_term():
    world = World(*of_all(1))
    world.dirty_to = {0: 40}
    submitted = []

    def submit(decide):
        submitted.append(decide(world.metadata.image))
        return submitted[-1].response

    world.seen(submit=submit)

    assert world.metadata.commits == 0
    assert [len(each.records) for each in submitted] == [1]
    assert world.decided() == [0]


def test_a_round_s_share_never_fails_it():
    world = World(*of_all(1))
    world.dirty_to = {0: 40}
    world.metadata.error = KafkaStorageError("the metadata root does not answer")

    world.passes.run_share()
    with pytest.raises(KafkaStorageError):
        world.passes.run_all()


def test_topics_are_named_or_refused():
    world = World(*of_all(1))
    world.dirty_to = {0: 40}

    assert world.passes.run_all([]) == ()
    assert world.looked_at == []
    [row] = world.passes.run_all([TOPIC])
    assert (row.topic, row.partition) == (TOPIC, 0)
    assert world.looked_at == [0]
    with pytest.raises(UnknownTopicOrPartitionError):
        world.passes.run_all("nowhere")


def test_what_is_due_and_what_could_not_be_looked_at_is_told_and_a_dry_run_commits_nothing():
    world = World(*of_all(3))
    world.dirty_to, world.errors = {0: 40}, {1: "a file is damaged"}

    told = world.passes.run_all(is_dry_run=True)
    assert world.metadata.commits == 0
    done = world.passes.run_all()

    assert told == done
    decided, failed = done
    assert (decided.kind, decided.partition, decided.count) == ("compaction", 0, 1)
    assert decided.what.startswith("decision: compacted below 40")
    assert (failed.partition, failed.count, failed.error) == (1, 0, "a file is damaged")
    assert world.metadata.commits == 1


def test_a_pass_over_some_topics_is_none_over_all():
    """The others are not put off by it."""
    world = World(*of_all(2))
    world.passes.run_share([])

    assert world.seen() == [0, 1]


def test_what_is_remembered_of_deleted_partitions_is_forgotten():
    world = World(*of_all(9))
    world.seen()
    topic = world.metadata.image.topic(TOPIC)
    left = replace(topic, partitions={0: topic.partitions[0]})
    world.metadata.image = replace(world.metadata.image, topics={TOPIC_ID: left})
    world.clock.advance(BACKOFF_MS)

    assert world.seen() == [0]
    assert list(world.passes._last) == [PartitionKey(TOPIC_ID, 0)]
