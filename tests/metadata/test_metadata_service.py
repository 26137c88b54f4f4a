"""Decide, commit, replay: races, lost answers, snapshots."""

import pytest

from kafka_on_spark.base.errors import CommitOutcomeUnknownError, InconsistentClusterError
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_service import SNAPSHOT_RECORDS_MIN, MetadataService
from kafka_on_spark.metadata.records import ProducerRecord
from tests.fakes import FakeClock, Fault
from tests.metadata.decisions import create_topic, submit


def test_decision_is_committed_and_replayed_before_its_response(open_service, log):
    service = open_service()

    assert submit(service, create_topic("orders")) == "created"

    assert set(service.image.topic_ids) == {"orders"}
    assert submit(service, create_topic("orders")) == "already exists"
    assert len(log.batches) == 1


def test_the_loser_of_a_race_decides_again_on_what_the_winner_committed(open_service, log):
    rivals = [lambda: submit(open_service(), create_topic("orders"))]

    response = submit(
        open_service(), create_topic("orders", before_commit=lambda: rivals and rivals.pop()())
    )

    assert response == "already exists"
    assert len(log.batches) == 1


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


def test_the_time_before_a_process_reads_a_snapshot_is_not_added_to_its_time(log):
    root, ahead = FakeClock(), FakeClock(FakeClock().now_ms() + 3_600_000)
    log.ask_root_ms = root.now_ms
    late = MetadataService(log, ahead, random=lambda: 1.0)
    for clock in (root, ahead):
        clock.advance(10_000)  # as it waits for its metadata root
    service = MetadataService(log, ahead, random=lambda: 1.0)
    fill(service, SNAPSHOT_RECORDS_MIN)
    service.maintain()

    late.catch_up()

    assert late.clock.now_ms() == root.now_ms() + 60_000


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
