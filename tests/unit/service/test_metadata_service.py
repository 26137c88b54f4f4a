"""Catch up, decide, commit: races, lost answers, snapshots."""

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
from kafka_on_spark.metadata.records import PartitionRecord, ProducerRecord, TopicRecord
from kafka_on_spark.ports import Turn
from kafka_on_spark.service.handed_in import encode_reports
from kafka_on_spark.service.metadata_service import SNAPSHOT_RECORDS_MIN, MetadataService
from tests.builders import partition, report, seen
from tests.fakes import FakeClock, Fault, MemoryMetadataLog


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


class HeldTurn(Turn):
    """A turn of this process, with what others have handed in."""

    has_news = True

    def __init__(self, *notes):
        self._notes = notes
        self.is_done = False

    def handed_in(self):
        return self._notes

    def done(self):
        self.is_done = True


def submit(service, decide, *, timeout_ms=1000, **fields):
    return service.submit(decide, timeout_ms=timeout_ms, **fields)


def test_decision_is_committed_and_replayed_before_its_response(open_service, log):
    service = open_service()

    assert submit(service, create_topic("orders")) == "created"

    assert set(service.image.topic_ids) == {"orders"}
    assert submit(service, create_topic("orders")) == "already exists"
    assert len(log.batches) == 1


def test_who_has_a_turn_decides_on_what_was_committed_before_it(open_service, log):
    turns = []

    @contextmanager
    def after_another(_):
        turns.append("taken")
        if len(turns) == 1:
            submit(open_service(), create_topic("payments"))
        yield HeldTurn()
        turns.append("given back")

    service = open_service(take_turn=after_another)
    seen = []

    submit(service, create_topic("orders", before_commit=lambda: seen.append(len(log.batches))))

    assert seen == [1]  # decided once, with the other's decision known
    assert set(service.image.topic_ids) == {"orders", "payments"}
    assert turns == ["taken", "given back"]


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


def test_one_commit_concludes_for_all_who_wait_and_tells_them(open_service, partitions, log):
    first, second, third = partitions
    turn = HeldTurn(encode_reports([all_at(second, 5)]), encode_reports([all_at(third, 7)]))
    service = open_service(take_turn=lambda note: nullcontext(turn))
    before = len(log.batches)

    conclude(service, all_at(first, 3))

    assert len(log.batches) == before + 1
    assert high_watermarks(open_service(), partitions) == [3, 5, 7]
    assert turn.is_done


def test_what_was_concluded_by_another_is_not_committed_again(open_service, partitions, log):
    key = partitions[0]
    conclude(open_service(), all_at(key, 3))
    turn = HeldTurn(encode_reports([all_at(partitions[1], 5)]))
    service = open_service(take_turn=lambda note: nullcontext(turn))
    before = len(log.batches)

    conclude(service, all_at(key, 3))

    assert len(log.batches) == before
    assert service.image.partition(key).high_watermark == 3
    assert not turn.is_done  # nothing was committed, so nobody is told that


def test_who_is_told_so_and_was_not_concluded_for_commits_on_its_own(open_service, partitions):
    """A note is taken and its commit lost: who handed it in reads the log and nothing else."""
    served = HeldTurn()
    service = open_service(take_turn=lambda note: nullcontext(served))

    conclude(service, all_at(partitions[0], 3))

    assert high_watermarks(open_service(), partitions)[0] == 3


@pytest.mark.parametrize(
    "note",
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
def test_a_note_that_says_nothing_of_now_takes_nothing_with_it(open_service, partitions, note):
    service = open_service(take_turn=lambda _: nullcontext(HeldTurn(note)))

    conclude(service, all_at(partitions[0], 3))

    assert high_watermarks(open_service(), partitions) == [3, 0, 0]


def test_after_a_conflict_what_waits_then_is_concluded(open_service, partitions, log):
    rival = [lambda: conclude(open_service(), all_at(partitions[1], 4))]
    turns = []

    class Overtaken(HeldTurn):
        def handed_in(self):
            while rival:
                rival.pop()()
            return super().handed_in()

    @contextmanager
    def take_turn(_):
        turns.append(Overtaken(encode_reports([all_at(partitions[2], 6)])))
        yield turns[-1]

    conclude(open_service(take_turn=take_turn), all_at(partitions[0], 3))

    assert high_watermarks(open_service(), partitions) == [3, 4, 6]
    assert [each.is_done for each in turns] == [False, True]


def test_stamp_says_who_when_and_where(log, clock):
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


def test_loser_of_a_race_decides_again_on_what_the_winner_wrote(open_service, log):
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
def test_unknown_outcome_is_never_tried_again_by_itself(open_service, log, fault, is_there):
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


def test_log_that_went_back_stops_the_process(open_service, log):
    service = open_service()
    submit(service, create_topic("orders"))
    log.roll_back(1)

    with pytest.raises(InconsistentClusterError):
        service.catch_up()


def fill(service, count):
    records = [ProducerRecord(producer_id=f"p{each}", producer_epoch=0) for each in range(count)]
    submit(service, lambda image: ControllerResult(records, None))


def test_process_starts_from_the_snapshot_and_the_tail(open_service, log):
    service = open_service()
    fill(service, SNAPSHOT_RECORDS_MIN)
    service.maintain()
    submit(service, create_topic("orders"))
    expected = service.image
    del log.batches[0]  # so that nothing but the snapshot can know

    assert open_service().catch_up() == expected


def test_snapshots_are_made_when_the_tail_has_grown_to_the_images_size(open_service, log):
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


def test_nobody_waits_for_a_metadata_root_that_refuses_him(log, clock, open_service, monkeypatch):
    service = open_service()

    def refuse(**asked):
        raise RootAccessDeniedError("no permission")

    monkeypatch.setattr(log, "read", refuse)
    with pytest.raises(RootAccessDeniedError):
        service.catch_up_waiting()

    assert clock.slept_ms == []
