"""Passes of compaction: which partitions are looked at, what is decided, and what is remembered."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.controller.cleanup_policy import (
    CompactionPass,
    inspect_for_compaction,
    plan_cleanup,
)
from kafka_on_spark.log import operations
from kafka_on_spark.log.compaction import CompactionProgress
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


# fmt: off
DUE = [  # policy    partition                                   is looked at
    pytest.param("compact", partition("1 2 3", hw=9),                  True,  id="compacted"),
    pytest.param("delete",  partition("1 2 3", hw=9),                  False, id="not compacted"),
    pytest.param("compact", partition("1 2 3", hw=9, leader=None),     False, id="without a leader"),
    pytest.param("compact", partition("1 2 3", hw=9, unmade="1 2 3"),  False, id="not made yet"),
    pytest.param("compact", partition("1 2 3", hw=0),                  False, id="empty"),
]
# fmt: on


@pytest.mark.parametrize("policy, registered, is_due", DUE)
def test_only_a_partition_that_can_be_compacted_is_looked_at(policy, registered, is_due):
    looked_at = []

    def look(orders):
        looked_at.extend(orders)
        return [WorkDone() for _ in orders]

    metadata = Metadata(image_of(registered, configs={"cleanup.policy": policy}))
    CompactionPass(node_of(metadata, FakeClock(), given={inspect_for_compaction: look})).run()

    assert len(looked_at) == is_due
