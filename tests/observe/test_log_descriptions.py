"""What is told of replicas' logs: what they are made of, and how far they are compacted."""

import pickle
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.ids import LOST, BrokerId, Offset
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.log.operations import advance_log_start
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.observe.replicas import describe_logs, description_task
from tests.log.upkeeping import Upkeeping
from tests.metadata.changes import changed


class Told(Upkeeping):
    """Partitions of three replicas, `count` batches of one record each, all committed."""

    def __init__(self, count=5, **options):
        super().__init__(count, **options)
        # Committed in the moment in which it was made.
        self.began_ms = self.table().load().batches[0].appended_at_ms if count else None

    def logs(self, image: MetadataImage | None = None):
        return self.described(
            lambda orders: [description_task(each, self.worker()) for each in orders], image
        )

    def described(self, describe, image: MetadataImage | None = None):
        tasks = SimpleNamespace(run=lambda task, orders, few: describe(orders))
        node = SimpleNamespace(tasks=tasks)
        return describe_logs(node, image or self.metadata.image, self.keys)


def test_a_log_is_told_by_its_files():
    told = Told(5)

    logs = told.logs()

    assert [each.broker_id for each in logs] == [1, 2, 3]
    assert [each.is_leader for each in logs] == [True, False, False]
    for each in logs:
        assert (each.log_start_offset, each.log_end_offset, each.record_count) == (0, 5, 5)
        assert (each.plain_segments, each.merged_segments, each.size_bytes) == (5, 0, 500)
        assert each.earliest_append_ms == told.began_ms
        assert (each.compacted, each.error) == (None, None)
    assert pickle.loads(pickle.dumps(logs)) == logs


def test_files_that_a_log_names_no_more_wait_for_their_deletion():
    told = Told(5)
    replica = told.table()
    state = replica.load()
    replica.commit(state, advance_log_start(state, Offset(3)))

    first, second, _ = told.logs()

    assert (first.size_bytes, first.waiting_bytes) == (200, 300)
    assert (second.size_bytes, second.waiting_bytes) == (500, 0)


def test_how_far_a_log_is_compacted_is_told_in_kafkas_words():
    told = Told(4, configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"})

    log, follower, _ = told.logs()

    part = log.compacted
    assert (part.cleaner_offset, part.first_dirty_offset, part.first_uncleanable_offset) == (
        0,
        0,
        4,
    )
    assert (part.clean_bytes, part.dirty_bytes, part.cleanable_ratio) == (0, 400, 1.0)
    assert follower.compacted.dirty_bytes == 400


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
    assert (log.broker_id, log.is_in_sync) == (3, False)


def test_a_replica_on_a_fenced_broker_or_a_root_that_does_not_answer_is_told_as_such():
    told = Told(1)
    told.roots["memory://2"].is_offline = True
    told.submit(fence_broker(told.metadata.image, BrokerId(3), "gone").records)

    first, second, third = told.logs()

    assert first.error is None
    assert second.error
    assert third.error == "broker 3 is fenced: its root does not answer"
