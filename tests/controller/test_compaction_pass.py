"""Passes of compaction: which partitions are looked at, what is decided, and what is remembered."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.controller import cleanup_policy
from kafka_on_spark.controller.cleanup_policy import (
    CompactionPass,
    inspect_for_compaction,
    plan_cleanup,
)
from kafka_on_spark.controller.compaction import CompactionReport, ReplicaProgress
from kafka_on_spark.log import operations
from kafka_on_spark.log.compaction import CompactionProgress, Dirt
from kafka_on_spark.log.upkeep_work import WorkDone
from tests.builders import (
    KEY,
    NOW_MS,
    address,
    image_of,
    merged,
    partition,
)
from tests.committing import Metadata
from tests.controller.rounds import EPOCH, Rounds
from tests.fakes import FakeClock
from tests.nodes import node_of

HOUR_MS = 3_600_000


class Looking(Rounds):
    """A partition of three replicas with five committed batches of one record, an hour apart."""

    def __init__(self, **configs):
        super().__init__(configs={"cleanup.policy": "compact", **configs})
        for name in "abcde":
            self.append(0, name)
            self.clock.advance(HOUR_MS)
        self.run()
        self.root_lag_ms = 0

    def table(self, broker_id):
        return self.replicas.open(address(broker_id, key=self.keys[0]))

    def order(self):
        now_ms = self.clock.now_ms()
        return plan_cleanup(self.metadata.image, self.keys[0], now_ms=now_ms, commit_ms=now_ms)

    def look(self, order=None):
        return inspect_for_compaction(order or self.order(), self)

    def root_now_ms(self, address):
        if self.root_lag_ms is None:
            raise KafkaStorageError("the root does not answer")
        return self.clock.now_ms() - self.root_lag_ms


def test_all_replicas_say_how_far_they_are_and_the_leader_what_is_dirty():
    cluster = Looking()
    state = cluster.table(2).load()
    progress = CompactionProgress(
        compacted_below=Offset(2), tombstones_below=Offset(0), finished_below=Offset(2)
    )
    change = operations.set_compaction(state, progress, leader_epoch=EPOCH)
    cluster.table(2).commit(state, change)

    report = cluster.look()

    assert {each: seen.progress.finished_below for each, seen in report.replicas.items()} == {
        1: 0,
        2: 2,
        3: 0,
    }
    assert {seen.log_end_offset for seen in report.replicas.values()} == {5}
    assert (report.dirt.first_dirty, report.dirt.cleanable_below) == (0, 5)
    assert report.dirt.dirty_bytes == sum(each.size_bytes for each in state.batches)
    assert report.leader_epoch == EPOCH


def test_the_newest_batches_are_left_for_the_lag():
    cluster = Looking(**{"min.compaction.lag.ms": str(2 * HOUR_MS)})

    assert cluster.look().dirt.cleanable_below == 4


def test_what_was_merged_is_as_old_as_its_oldest_record():
    """Else a merge would put off what max.compaction.lag.ms asks for."""
    plain = Looking().table(1).load()
    whole = merged(plain, 0, 5)
    whole = replace(
        whole,
        segment=replace(whole.segment, timestamp_min_us=1000 * plain.batches[0].appended_at_ms),
    )

    first, last = plain.batches[0], plain.batches[-1]
    assert whole.oldest_ms == first.oldest_ms == first.appended_at_ms
    assert whole.appended_at_ms == last.appended_at_ms


def test_a_root_of_a_follower_that_is_away_is_left_out():
    cluster = Looking()
    cluster.roots["memory://3"].is_offline = True

    assert set(cluster.look().replicas) == {1, 2}


def test_a_fenced_broker_and_a_replica_that_was_not_made_are_not_asked():
    registered = partition("2 1 3 4", unmade="4", hw=5)
    image = image_of(registered, ids="1 2 3 4", fenced="3")

    order = plan_cleanup(image, KEY, now_ms=NOW_MS, commit_ms=NOW_MS)

    assert [each.broker_id for each in order.addresses] == [2, 1]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda each: setattr(each.roots["memory://1"], "is_offline", True), id="away"),
        pytest.param(lambda each: setattr(each, "root_lag_ms", None), id="without a clock"),
        pytest.param(lambda each: each.roots["memory://1"].wipe(), id="wiped"),
    ],
)
def test_a_leader_that_can_not_be_asked_makes_no_report(spoil):
    cluster = Looking()
    spoil(cluster)

    look = cluster.look()

    assert look.error


def test_a_leader_that_lacks_committed_records_makes_no_report():
    cluster = Looking()
    cluster.roots["memory://1"].roll_back(2)

    look = cluster.look()

    assert look.error


CONFIGS = {"cleanup.policy": "compact"}

BACKOFF_MS = 15_000


class World:
    """Partitions of which so much is dirty; a look takes some time."""

    def __init__(self, *partitions, configs=CONFIGS, **fields):
        self.metadata = Metadata(image_of(*partitions, configs=configs, **fields))
        self.clock = FakeClock()
        self.dirty_to = {}
        self.errors = {}
        self.look_ms = 0
        self.looked_at = []
        given = {inspect_for_compaction: self.look}
        self.passes = CompactionPass(node_of(self.metadata, self.clock, given=given))

    def look(self, orders):
        self.clock.advance(self.look_ms)
        return [self._look(order) for order in orders]

    def _look(self, order):
        number = order.key.partition
        self.looked_at.append(number)
        if number in self.errors:
            return WorkDone(error=self.errors[number])
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
                finished,
            )
            for each in order.addresses
        }
        dirt = Dirt(now.compacted_below, end, 0, 100, order.now_ms - 1)
        if end <= now.compacted_below:
            dirt = Dirt(now.compacted_below, now.compacted_below, 100, 0, None)
        return CompactionReport(
            key=order.key,
            leader_epoch=order.partition.leader_epoch,
            dirt=dirt,
            replicas=seen,
            cleaned_below=order.partition.compaction.cleaned_below,
            now_ms=order.now_ms,
            latest_ms=order.now_ms,
        )

    def seen(self, **given):
        """Make a pass; return the partitions that were looked at."""
        self.looked_at = []
        self.results = self.passes.run(**given)
        return self.looked_at

    def decided(self):
        return [each.key.partition for each in self.results if not each.has_failed]


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


def test_a_pass_ends_after_its_time_and_the_next_goes_on_with_those_that_wait_longest(monkeypatch):
    monkeypatch.setattr(cleanup_policy, "INSPECTIONS_AT_ONCE", 2)
    world = World(*of_all(5))
    world.look_ms = cleanup_policy.PASS_MS_MAX

    assert world.seen() == [0, 1]
    assert world.seen() == [2, 3]
    assert world.seen() == [4]

    world.clock.advance(BACKOFF_MS)
    assert world.seen() == [0, 1]


def test_maintain_looks_at_all_whenever_they_were_looked_at_and_however_long_that_takes(
    monkeypatch,
):
    monkeypatch.setattr(cleanup_policy, "INSPECTIONS_AT_ONCE", 2)
    world = World(*of_all(5))
    world.look_ms = cleanup_policy.PASS_MS_MAX

    assert world.seen() == [0, 1]
    assert world.seen(is_all=True) == [0, 1, 2, 3, 4]


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


def test_what_is_due_and_what_could_not_be_looked_at_is_told_and_a_dry_run_commits_nothing():
    world = World(*of_all(3))
    world.dirty_to, world.errors = {0: 40}, {1: "a file is damaged"}

    told = world.passes.run(is_all=True, is_dry_run=True)
    assert world.metadata.commits == 0
    done = world.passes.run(is_all=True)

    assert told == done
    [(kind, decided)], [(_, failed)] = (each.done for each in done)
    assert [each.key.partition for each in done] == [0, 1]
    assert (kind, decided.count) == ("compaction", 1)
    assert decided.what.startswith("decision: compacted below 40")
    assert (failed.count, failed.error) == (0, "a file is damaged")
    assert world.metadata.commits == 1
