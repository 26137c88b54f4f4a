"""The holder of the commit lock decides on the newest image, and concludes the queued reports of the
processes that wait."""

from contextlib import contextmanager, nullcontext

import pytest

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.metadata.commit_lock import CommitLock
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import PartitionRecord, TopicRecord
from kafka_on_spark.produce.append_rounds import conclude_reports
from tests.builders import partition, report, seen
from tests.metadata.decisions import create_topic, submit


class HeldLock(CommitLock):
    """The commit lock, held by this process, with the reports that others have queued."""

    needs_refresh = True

    def __init__(self, *queued):
        self._queued = queued
        self.is_done = False

    def queued_reports(self):
        return self._queued

    def mark_committed(self):
        self.is_done = True


def test_the_lock_holder_decides_on_what_was_committed_before_it(open_service, log):
    locks = []

    @contextmanager
    def after_another(uri, _):
        locks.append("taken")
        if len(locks) == 1:
            submit(open_service(), create_topic("payments"))
        yield HeldLock()
        locks.append("given back")

    service = open_service(acquire_lock=after_another)
    seen = []

    submit(service, create_topic("orders", before_commit=lambda: seen.append(len(log.batches))))

    assert seen == [1]  # decided once, with the other's decision known
    assert set(service.image.topic_ids) == {"orders", "payments"}
    assert locks == ["taken", "given back"]


@pytest.fixture
def partitions(open_service):
    """Have a topic of three partitions in the log; return them."""
    keys = [PartitionKey("t", number) for number in range(3)]
    records = [TopicRecord(topic="t", topic_id="t")] + [
        PartitionRecord(topic="t", topic_id="t", partition=key.partition, registration=IN_SYNC)
        for key in keys
    ]
    submit(open_service(), lambda _: ControllerResult(records, None))
    return keys


IN_SYNC = partition("1 2 3")


def all_at(key, end):
    return report(*(seen(each, end) for each in (1, 2, 3)), key=key)


def conclude(service, *reports):
    service.catch_up()
    conclude_reports(service, reports, timeout_ms=1000)


def high_watermarks(service, keys):
    return [service.catch_up().partition(key).high_watermark for key in keys]


def test_whoever_commits_counts_no_replica_that_the_process_which_queued_found_bad(
    open_service, partitions
):
    first, second, _ = partitions
    queued = []

    def queue(uri, encoded_reports):
        queued.append(encoded_reports())
        return nullcontext(HeldLock())

    waiting = open_service(acquire_lock=queue)
    waiting.suspects = frozenset({IN_SYNC.uuid_of(3)})
    conclude(waiting, all_at(second, 5))
    holder = open_service(acquire_lock=lambda uri, _: nullcontext(HeldLock(*queued)))

    conclude(holder, all_at(first, 3))

    assert high_watermarks(open_service(), [first, second]) == [3, 0]
