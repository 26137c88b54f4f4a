"""Catch up, decide, commit: races, lost answers, snapshots."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest

from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    InconsistentClusterError,
    KafkaStorageError,
    RequestTimedOutError,
    RootAccessDeniedError,
)
from kafka_on_spark.ids import ControllerEpoch, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import PartitionRecord, ProducerRecord, Stamp, TopicRecord
from kafka_on_spark.ports.metadata import CommitLock
from kafka_on_spark.service.metadata.metadata_service import SNAPSHOT_RECORDS_MIN, MetadataService
from kafka_on_spark.service.metadata.queued_reports import encode_reports
from tests.builders import partition, report, seen
from tests.fakes import FakeClock, Fault, MemoryMetadataLog

STAMP = Stamp(time_ms=1)


@pytest.fixture
def log():
    return MemoryMetadataLog()


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def open_service(log, clock):
    return partial(MetadataService, log, clock, random=lambda: 1.0)


def create_topic(name, *, before_commit=lambda: None):
    def decide(image):
        before_commit()
        if name in image.topic_ids:
            return ControllerResult([], "already exists")
        return ControllerResult([TopicRecord(topic=name, topic_id=f"id of {name}")], "created")

    return decide


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


def submit(service, decide, *, timeout_ms=1000, **fields):
    return service.submit(decide, timeout_ms=timeout_ms, **fields)


def test_decision_is_committed_and_replayed_before_its_response(open_service, log):
    service = open_service()

    assert submit(service, create_topic("orders")) == "created"

    assert set(service.image.topic_ids) == {"orders"}
    assert submit(service, create_topic("orders")) == "already exists"
    assert len(log.batches) == 1


def test_the_lock_holder_decides_on_what_was_committed_before_it(open_service, log):
    locks = []

    @contextmanager
    def after_another(_):
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
    return service.conclude(reports, timeout_ms=1000)


def high_watermarks(service, keys):
    return [service.catch_up().partition(key).high_watermark for key in keys]


def test_one_commit_concludes_the_queued_reports_too_and_says_so(open_service, partitions, log):
    first, second, third = partitions
    lock = HeldLock(encode_reports([all_at(second, 5)]), encode_reports([all_at(third, 7)]))
    service = open_service(acquire_lock=lambda _: nullcontext(lock))
    before = len(log.batches)

    conclude(service, all_at(first, 3))

    assert len(log.batches) == before + 1
    assert high_watermarks(open_service(), partitions) == [3, 5, 7]
    assert lock.is_done


def test_what_the_lock_holder_concluded_is_not_committed_again(open_service, partitions, log):
    key = partitions[0]
    conclude(open_service(), all_at(key, 3))
    lock = HeldLock(encode_reports([all_at(partitions[1], 5)]))
    service = open_service(acquire_lock=lambda _: nullcontext(lock))
    before = len(log.batches)

    conclude(service, all_at(key, 3))

    assert len(log.batches) == before
    assert service.image.partition(key).high_watermark == 3
    assert not lock.is_done  # nothing was committed, so nobody is told that


def test_a_process_whose_queued_reports_were_not_concluded_commits_them_itself(
    open_service, partitions
):
    """The holder took the reports and its commit was lost: their process believes the log only."""
    served = HeldLock()
    service = open_service(acquire_lock=lambda _: nullcontext(served))

    conclude(service, all_at(partitions[0], 3))

    assert high_watermarks(open_service(), partitions)[0] == 3


@pytest.mark.parametrize(
    "queued",
    [
        pytest.param(b"", id="empty"),
        pytest.param(encode_reports([all_at(PartitionKey("t", 1), 5)])[:-1], id="cut off"),
        pytest.param(encode_reports([all_at(PartitionKey("t", 0), 9)]), id="of the same partition"),
        pytest.param(encode_reports([all_at(PartitionKey("gone", 0), 9)]), id="of a deleted topic"),
        pytest.param(
            encode_reports([all_at(PartitionKey("t", 1), "5")]), id="that can't be decided on"
        ),
        pytest.param(
            encode_reports([report(seen(1, 5, fence=4), key=PartitionKey("t", 1))]),
            id="of an older leadership",
        ),
        pytest.param(
            encode_reports([report(*(seen(n, 5) for n in (1, 2, 3)), version=8)]),
            id="of an older registration",
        ),
    ],
)
def test_queued_reports_that_do_not_hold_now_change_nothing(open_service, partitions, queued):
    service = open_service(acquire_lock=lambda _: nullcontext(HeldLock(queued)))

    conclude(service, all_at(partitions[0], 3))

    assert high_watermarks(open_service(), partitions) == [3, 0, 0]


def test_after_a_conflict_the_reports_queued_by_then_are_concluded(open_service, partitions, log):
    rival = [lambda: conclude(open_service(), all_at(partitions[1], 4))]
    locks = []

    class Overtaken(HeldLock):
        def queued_reports(self):
            while rival:
                rival.pop()()
            return super().queued_reports()

    @contextmanager
    def acquire(_):
        locks.append(Overtaken(encode_reports([all_at(partitions[2], 6)])))
        yield locks[-1]

    conclude(open_service(acquire_lock=acquire), all_at(partitions[0], 3))

    assert high_watermarks(open_service(), partitions) == [3, 4, 6]
    assert [each.is_done for each in locks] == [False, True]


def test_a_stamp_has_the_controller_the_time_and_the_application(log, clock):
    service = MetadataService(log, clock, random=lambda: 0.0, application_id="local-7")

    submit(service, create_topic("orders"), controller=("c1", ControllerEpoch(4)))
    submit(service, create_topic("payments"))

    first, second = (each.stamp for each in log.batches)
    assert (first.controller_id, first.controller_epoch, first.application_id) == (
        "c1",
        4,
        "local-7",
    )
    assert (second.controller_id, second.controller_epoch) == (None, None)
    assert first.time_ms == clock.now_ms()


def test_the_loser_of_a_race_decides_again_on_what_the_winner_committed(open_service, log):
    rivals = [lambda: submit(open_service(), create_topic("orders"))]

    response = submit(
        open_service(), create_topic("orders", before_commit=lambda: rivals and rivals.pop()())
    )

    assert response == "already exists"
    assert len(log.batches) == 1


def test_loser_of_a_race_about_something_else_commits_after_it(open_service):
    rivals = [lambda: submit(open_service(), create_topic("payments"))]
    service = open_service()

    response = submit(
        service, create_topic("orders", before_commit=lambda: rivals and rivals.pop()())
    )

    assert response == "created"
    assert set(service.image.topic_ids) == {"orders", "payments"}


def test_endless_conflict_ends_with_the_time_and_pauses_grow_between_tries(
    open_service, log, clock
):
    log.faults.extend([Fault.CONFLICT] * 1000)

    with pytest.raises(RequestTimedOutError):
        submit(open_service(), create_topic("orders"), timeout_ms=1000)

    assert log.batches == []
    assert clock.slept_ms[:4] == [1, 2, 4, 8]
    assert max(clock.slept_ms) == 200
    assert 1000 <= clock.monotonic_ms() <= 1000 + 200


@pytest.mark.parametrize("fault, is_there", [(Fault.LOST_BEFORE, False), (Fault.LOST_ANSWER, True)])
def test_an_unknown_outcome_is_never_retried_by_itself(open_service, log, fault, is_there):
    service = open_service()
    log.faults.append(fault)

    with pytest.raises(CommitOutcomeUnknownError):
        submit(service, create_topic("orders"))

    assert service.image == MetadataImage()
    assert ("orders" in service.catch_up().topic_ids) is is_there
    assert submit(service, create_topic("orders")) == ("already exists" if is_there else "created")
    assert len(log.batches) == 1


def test_refusal_of_a_decision_commits_nothing(open_service, log):
    def refuse(image):
        raise KafkaStorageError("no")

    with pytest.raises(KafkaStorageError):
        submit(open_service(), refuse)

    assert log.batches == []


def test_a_log_that_went_back_stops_the_process(open_service, log):
    service = open_service()
    submit(service, create_topic("orders"))
    log.roll_back(1)

    with pytest.raises(InconsistentClusterError):
        service.catch_up()


def fill(service, count):
    records = [ProducerRecord(producer_id=f"p{each}", producer_epoch=0) for each in range(count)]
    submit(service, lambda image: ControllerResult(records, None))


def test_a_process_starts_from_the_snapshot_and_the_log_after_it(open_service, log):
    service = open_service()
    fill(service, SNAPSHOT_RECORDS_MIN)
    service.maintain()
    submit(service, create_topic("orders"))
    expected = service.image
    del log.batches[0]  # so that nothing but the snapshot can know

    assert open_service().catch_up() == expected


def test_a_snapshot_is_due_when_the_log_after_the_last_is_as_long_as_the_image(open_service, log):
    service = open_service()
    for count in (SNAPSHOT_RECORDS_MIN - 1, 1, 400, 600, 2000):
        fill(service, count)
        service.maintain()
        service.maintain()

    assert sorted(log.snapshots) == [1000, 2000, 4000]


def test_snapshot_that_fails_costs_time_only(open_service, log):
    service = open_service()
    fill(service, SNAPSHOT_RECORDS_MIN)
    log.is_offline = True

    service.maintain()
    log.is_offline = False

    assert open_service().catch_up() == service.image


def away_until(log, clock, moment_ms):
    """Take the log's root away until a moment."""
    log.is_offline = True

    def come_back():
        log.is_offline = clock.monotonic_ms() < moment_ms

    clock.on_sleep = come_back


def test_a_stream_waits_for_a_metadata_root_that_is_away_for_less_than_its_time(
    log, clock, open_service
):
    service = open_service()
    service.submit(create_topic("orders"), timeout_ms=1000)
    away_until(log, clock, 290_000)

    image = service.catch_up_waiting()

    assert "orders" in image.topic_ids
    assert max(clock.slept_ms) <= 5000


def test_a_stream_fails_when_its_metadata_root_stays_away(log, clock, open_service):
    service = open_service()
    service.submit(create_topic("orders"), timeout_ms=1000)
    away_until(log, clock, 10**9)

    with pytest.raises(KafkaStorageError):
        service.catch_up_waiting()

    assert 290_000 <= clock.monotonic_ms() <= 300_000


def test_a_process_does_not_wait_for_a_metadata_root_that_refuses_it(
    log, clock, open_service, monkeypatch
):
    service = open_service()

    def refuse(**asked):
        raise RootAccessDeniedError("no permission")

    monkeypatch.setattr(log, "read", refuse)
    with pytest.raises(RootAccessDeniedError):
        service.catch_up_waiting()

    assert clock.slept_ms == []


class _SlowLog(MemoryMetadataLog):
    """A log whose reads wait until they are let go on."""

    def __init__(self):
        super().__init__()
        self.reads = 0
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def read(self, *, from_offset, to_offset=None):
        self.reads += 1
        found = super().read(from_offset=from_offset, to_offset=to_offset)
        self.has_begun.set()
        assert self.may_end.wait(60)
        return found


def test_threads_that_catch_up_at_once_share_the_read_after_the_one_under_way(clock):
    """That one may have begun before what they must see was committed."""
    log = _SlowLog()
    service = MetadataService(log, clock, random=lambda: 1.0)
    with ThreadPoolExecutor(8) as threads:
        early = threads.submit(service.catch_up)
        log.has_begun.wait(60)
        log.append([ProducerRecord(producer_id="p", producer_epoch=0)], STAMP, expected_offset=0)
        late = [threads.submit(service.catch_up) for _ in range(7)]
        time.sleep(0.05)  # most of them wait by then; those that come later read for themselves
        log.may_end.set()

        assert early.result().producers == {}
        assert all(each.result().producers == {"p": 0} for each in late)
    assert 2 <= log.reads <= 8


def test_a_read_that_failed_is_shared_by_nobody(log, open_service):
    service = open_service()
    log.is_offline = True
    with pytest.raises(KafkaStorageError):
        service.catch_up()
    log.is_offline = False
    log.append([ProducerRecord(producer_id="p", producer_epoch=0)], STAMP, expected_offset=0)

    assert service.catch_up().producers == {"p": 0}
