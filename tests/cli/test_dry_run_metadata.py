"""A dry run, and the past, have no way to commit: they have no method that does."""

import pytest

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.cli.dry_run import DryRunMetadata
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.metadata.image import ControllerResult, snapshot_records
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import ControllerRecord
from kafka_on_spark.observe.metadata_as_of import MetadataAsOf
from tests.builders import image_of, partition
from tests.fakes import FakeClock, MemoryMetadataLog


@pytest.fixture
def log():
    return MemoryMetadataLog()


@pytest.fixture
def service(log):
    made = MetadataService(log, FakeClock(), random=lambda: 0.5)
    records = snapshot_records(image_of(partition("1 2"), ids="1 2"))
    made.submit(lambda image: ControllerResult(records, None), timeout_ms=1000)
    return made


def dry_run_of(service):
    return DryRunMetadata(service.catch_up(), FakeClock())


def test_decisions_that_a_dry_run_submits_take_effect_in_it_and_nowhere_else(service, log):
    before = list(log.batches)
    dry_run = dry_run_of(service)

    dry_run.submit(lambda image: fence_broker(image, BrokerId(1), "why"), timeout_ms=1000)

    assert log.batches == before
    assert not dry_run.catch_up().is_eligible(1)
    assert service.catch_up().is_eligible(1)


def test_claims_and_resignations_do_not_count_as_decided_by_a_dry_run(service):
    dry_run = dry_run_of(service)
    claim = ControllerRecord(controller_id="me", controller_epoch=0, cause="a claim")

    dry_run.submit(lambda image: ControllerResult([claim], None), timeout_ms=1000)

    assert dry_run.decided == []
    assert dry_run.image.controller.controller_id == "me"


def test_a_lease_that_another_holds_counts_as_resigned(service):
    claim = ControllerRecord(controller_id="other", controller_epoch=3, cause="a claim")
    service.submit(lambda image: ControllerResult([claim], None), timeout_ms=1000)

    lease = dry_run_of(service).image.controller

    assert (lease.controller_id, lease.controller_epoch) == (None, 3)


def test_the_past_has_no_method_that_commits(service):
    """It is no MetadataService with methods overridden, so that none can be forgotten."""
    past = MetadataAsOf(service, service.image)

    public = {name for name in dir(past) if not name.startswith("_")}

    assert public == {"catch_up", "history", "image", "pieces_newest_first", "refusal"}


def test_a_dry_run_has_no_way_to_the_log(service, log):
    """It is given an image and a clock: no method, also one that is added later, can commit."""
    dry_run = DryRunMetadata(service.image, FakeClock())

    assert vars(dry_run).keys() == {"_clock", "image", "decided"}
    assert not isinstance(dry_run, MetadataService)
