"""What is told of replicas' logs: what they are made of, and what of their upkeep is due, since when."""

import pickle
from dataclasses import replace

import pytest

from kafka_on_spark.controller.brokers.broker_changes import fence_broker
from kafka_on_spark.ids import LOST, BrokerId, Offset
from kafka_on_spark.log.upkeep.cleaning import STAGING_MS
from kafka_on_spark.metadata.compaction import Compaction
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.service.describe.log_descriptions import describe_log, describe_logs
from kafka_on_spark.service.maintain.merging import merge_replica
from kafka_on_spark.service.maintain.upkeep_work import Allowance, UpkeepPorts
from tests.builders import address
from tests.fakes import MemoryReplicaFolders, folder
from tests.unit.service.describe.changes import changed
from tests.unit.service.rounds import Rounds

NEWEST = 10  # merge.min.lag.batches


class Told(Rounds):
    """Partitions of three replicas, `count` batches of one record each, all committed."""

    def __init__(self, count=5, **options):
        super().__init__(**options)
        self.began_ms = self.clock.now_ms()
        if count:
            self.append(0, "a", count)
            self.run()
        self.folders = MemoryReplicaFolders(self.roots)
        self.ports = UpkeepPorts(
            replicas=self.replicas,
            segments=self.segments,
            folders=self.folders,
            compactor=None,
            clock=self.clock,
        )

    def logs(self, image: MetadataImage | None = None):
        return describe_logs(
            image or self.metadata.image,
            self.keys,
            lambda orders: [describe_log(each, self.ports) for each in orders],
        )

    def due(self, broker_id=1, **fields):
        [log] = [each for each in self.logs(**fields) if each.broker_id == broker_id]
        return {each.kind: each for each in log.due}


def test_a_log_is_told_by_its_files():
    told = Told(5)

    logs = told.logs()

    assert [each.broker_id for each in logs] == [1, 2, 3]
    assert [each.is_leader for each in logs] == [True, False, False]
    for each in logs:
        assert (each.log_start_offset, each.log_end_offset, each.record_count) == (0, 5, 5)
        assert (each.plain_segments, each.merged_segments, each.size_bytes) == (5, 0, 500)
        assert each.earliest_append_ms == told.began_ms
        assert (each.compacted, each.due, each.error) == (None, (), None)
    assert pickle.loads(pickle.dumps(logs)) == logs


def test_a_merge_that_is_due_is_told_with_its_bytes_and_since_when_and_then_its_result():
    told = Told(32 + NEWEST)
    orders = []
    describe_logs(told.metadata.image, told.keys, lambda each: orders.extend(each) or [])

    due = told.due()["merge"]
    assert (due.count, due.size_bytes, due.since_ms) == (1, 3200, told.began_ms)
    assert str(due) == "merge: 1 merge of neighbouring files (3,200 bytes)"

    order = replace(orders[0], is_dry_run=False)
    merge_replica(order, told.ports, Allowance(order, told.clock))

    first, second, _ = told.logs()
    assert (first.merged_segments, first.plain_segments, first.record_count) == (1, NEWEST, 42)
    assert [(each.kind, each.count) for each in first.due] == [("clean", 32)]
    assert [each.kind for each in second.due] == ["merge"]


def test_retention_is_due_where_the_leaders_log_is_too_old_and_since_when():
    told = Told(3, configs={"retention.ms": "1000"})

    assert told.due() == {}
    told.clock.advance(1500)

    due = told.due()["retention"]
    assert (due.count, due.size_bytes) == (3, 300)
    assert due.since_ms == told.began_ms + 1001
    assert told.due(2) == {}, "a leader's log tells"


def test_files_that_may_go_are_due_since_they_may():
    told = Told(1)
    files = told.roots["memory://2"].files[folder(address(2, key=told.keys[0]))]
    stale = "0-" + "a" * 32 + "-" + "b" * 32 + ".parquet"
    files[stale] = b"staged once"
    told.folders.written[stale] = told.folders.now - STAGING_MS - 4000

    due = told.due(2)["clean"]

    assert (due.count, due.size_bytes) == (1, len(b"staged once"))
    assert due.since_ms == told.folders.now - 4000


def test_how_far_a_log_is_compacted_is_told_in_kafkas_words_and_what_is_due():
    told = Told(4, configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"})

    log, follower, _ = told.logs()

    part = log.compacted
    assert (part.cleaner_offset, part.first_dirty_offset, part.first_uncleanable_offset) == (
        0,
        0,
        4,
    )
    assert (part.clean_bytes, part.dirty_bytes, part.cleanable_ratio) == (0, 400, 1.0)
    [due] = log.due
    assert (due.kind, due.count, due.size_bytes, due.since_ms) == (
        "compaction",
        4,
        400,
        told.began_ms,
    )
    assert "min.cleanable.dirty.ratio=0.5" in due.cause
    assert str(due).startswith("compaction: 4 offsets to compact (400 bytes): 1.00 of its bytes ")
    assert follower.compacted.dirty_bytes == 400
    assert follower.due == ()


def test_a_decision_that_a_replica_has_not_applied_is_due_there():
    told = Told(4, configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"})
    decided = Compaction(compacted_below=Offset(4))
    image = changed(told.metadata.image, told.keys[0], compaction=decided)

    assert told.due(3, image=image)["compact"].count == 1
    assert "compaction" not in told.due(1, image=image)


def test_a_log_that_is_not_the_leaders_yet_is_told_without_decisions():
    told = Told(3, configs={"retention.ms": "0"})
    told.clock.advance(10)
    image = changed(told.metadata.image, told.keys[0], leader_epoch=6, partition_epoch=9)

    assert told.due(1, image=image) == {}


@pytest.mark.parametrize("directory, is_made", [(None, False), (LOST, True)])
def test_a_replica_without_a_table_is_told_as_such(directory, is_made):
    told = Told(1)
    partition = told.metadata.image.partition(told.keys[0])
    directories = (*partition.directories[:2], directory)
    isr = frozenset({BrokerId(1), BrokerId(2)})
    image = changed(told.metadata.image, told.keys[0], directories=directories, isr=isr)

    log = told.logs(image)[2]

    assert log.is_made is is_made
    assert log.error == ("the replica is lost, and was not made again yet" if is_made else None)
    assert (log.broker_id, log.due, log.is_in_sync) == (3, (), False)


def test_a_replica_on_a_fenced_broker_or_a_root_that_does_not_answer_is_told_as_such():
    told = Told(1)
    told.roots["memory://2"].is_offline = True
    told.submit(fence_broker(told.metadata.image, BrokerId(3), "gone").records)

    first, second, third = told.logs()

    assert first.error is None
    assert second.error
    assert third.error == "broker 3 is fenced: its root does not answer"
