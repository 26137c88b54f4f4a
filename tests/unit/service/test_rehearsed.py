"""A rehearsal, and the past, have no way to commit: they hold a log that can't be written."""

import pytest

from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import CommitConflictError, InvalidRequestError
from kafka_on_spark.ids import BrokerId, Offset
from kafka_on_spark.log.operations import adopt
from kafka_on_spark.metadata.records import ControllerRecord, Stamp
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.past import PastMetadata
from kafka_on_spark.service.rehearsed import RehearsedMetadata, RehearsedReplicas
from tests.builders import KEY, address, disk, image_of, partition, report, seen
from tests.fakes import FakeClock, MemoryMetadataLog, MemoryReplicaStore, MemoryRoots

ADVANCED = report(seen(1, leo=2), seen(2, leo=2))
"""Both replicas have two records, and the high watermark is 0."""


@pytest.fixture
def log():
    return MemoryMetadataLog()


@pytest.fixture
def service(log):
    made = MetadataService(log, FakeClock(), random=lambda: 0.5)
    records = snapshot_records(image_of(partition("1 2"), ids="1 2"))
    made.submit(lambda image: ControllerResult(records, None), timeout_ms=1000)
    return made


def past(service):
    return PastMetadata(service, service.image)


def test_what_a_rehearsal_concludes_takes_effect_in_it_and_nowhere_else(service, log):
    before = list(log.batches)
    rehearsed = RehearsedMetadata(service)

    rehearsed.conclude([ADVANCED], timeout_ms=1000)

    assert log.batches == before
    assert rehearsed.image.partition(KEY).high_watermark == 2
    assert [type(each).__name__ for each in rehearsed.decided] == ["HighWatermarkRecord"]
    assert service.catch_up().partition(KEY).high_watermark == 0


def test_what_a_rehearsal_submits_takes_effect_in_it_and_nowhere_else(service, log):
    before = list(log.batches)
    rehearsed = RehearsedMetadata(service)

    rehearsed.submit(lambda image: fence_broker(image, BrokerId(1), "why"), timeout_ms=1000)

    assert log.batches == before
    assert not rehearsed.catch_up().is_eligible(1)
    assert service.catch_up().is_eligible(1)


def test_claims_and_resignations_are_no_decisions_of_a_rehearsal(service):
    rehearsed = RehearsedMetadata(service)
    claim = ControllerRecord(controller_id="me", controller_epoch=0, cause="a claim")

    rehearsed.submit(lambda image: ControllerResult([claim], None), timeout_ms=1000)

    assert rehearsed.decided == []
    assert rehearsed.image.controller.controller_id == "me"


def test_a_lease_that_somebody_holds_is_taken_for_resigned(service):
    claim = ControllerRecord(controller_id="other", controller_epoch=3, cause="a claim")
    service.submit(lambda image: ControllerResult([claim], None), timeout_ms=1000)

    lease = RehearsedMetadata(service).image.controller

    assert (lease.controller_id, lease.controller_epoch) == (None, 3)


def test_the_past_can_neither_submit_nor_conclude(service, log):
    before = list(log.batches)

    with pytest.raises(InvalidRequestError, match="the past is read-only"):
        past(service).conclude([ADVANCED], timeout_ms=1000)
    with pytest.raises(InvalidRequestError, match="the past is read-only"):
        past(service).submit(lambda image: ControllerResult([], None), timeout_ms=1000)

    assert log.batches == before


@pytest.mark.parametrize("kind", [RehearsedMetadata, past], ids=["a rehearsal", "the past"])
def test_there_is_no_way_to_commit(service, log, kind):
    """Not even by a method that somebody adds to the metadata service and overrides nowhere."""
    before, closed = list(log.batches), kind(service)
    records = [ControllerRecord(controller_id="me", controller_epoch=9, cause="forgotten")]

    with pytest.raises(InvalidRequestError, match="can't commit 1 records"):
        closed._log.append(records, Stamp(time_ms=1), expected_offset=log.end_offset)
    with pytest.raises(InvalidRequestError, match="can't commit 1 records"):
        MetadataService._submit(
            closed, lambda image, turn: ControllerResult(records, None), 1000, None, None
        )
    with pytest.raises(InvalidRequestError, match="can't write a snapshot"):
        closed._log.write_snapshot(records, Stamp(time_ms=1), log.end_offset)
    closed._log.maintain()

    assert log.batches == before
    assert not log.snapshots


def test_a_rehearsal_reads_the_log_as_it_is(service, log):
    rehearsed = RehearsedMetadata(service)

    assert rehearsed.history() == log.batches
    assert rehearsed.offset_at(0) == 0
    assert rehearsed.image_at(log.end_offset).topics == service.image.topics


def test_two_of_one_rehearsal_that_commit_to_a_table_conflict_as_they_would_in_earnest():
    here = address(1)
    real = MemoryReplicaStore(MemoryRoots({here.root: disk(1)}))
    real.make(here)
    rehearsed = RehearsedReplicas(real)
    first, second = rehearsed.open(here), rehearsed.open(here)
    seen_by_both = first.load()
    change = adopt(seen_by_both, leader_epoch=3, truncate_to=None, floor=Offset(0))

    after = first.commit(seen_by_both, change)

    with pytest.raises(CommitConflictError):
        second.commit(seen_by_both, change)
    later = adopt(after, leader_epoch=4, truncate_to=None, floor=Offset(0))
    assert second.commit(second.load(), later).leader_epoch == 4
    assert real.open(here).load().leader_epoch is None
