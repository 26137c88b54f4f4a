"""An idle reader sees a commit soon, and asks the metadata root seldom."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import InconsistentClusterError, KafkaStorageError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import CommitWait
from tests.fakes import FakeClock


class Metadata:
    """What a process knows of a log, and how often it has asked the log's root."""

    def __init__(self):
        self.image = MetadataImage(offset=5)
        self.end = 5
        self.requests = 0
        self.reads = 0
        self.error = None

    def read_costs(self):
        return 1 + len(self.image.registered_voters or ("alone",))

    def _ask(self, requests):
        self.requests += requests
        if self.error is not None:
            raise self.error

    def has_next(self):
        self._ask(1)
        return self.end > self.image.offset

    def catch_up(self):
        self._ask(self.read_costs())
        self.reads += 1
        if self.end > self.image.offset:
            self.image = replace(self.image, offset=self.end)
        return self.image


@pytest.fixture
def waiting():
    def make(*, is_local):
        metadata, clock = Metadata(), FakeClock()
        metadata.log = SimpleNamespace(leader_uri="/metadata" if is_local else "s3://metadata")
        wait = CommitWait(metadata, clock)
        return SimpleNamespace(metadata=metadata, clock=clock, wait=wait)

    return make


def test_on_a_disk_there_are_nine_looks_a_second(waiting):
    case = waiting(is_local=True)

    case.wait.wait(5, 60_000)

    assert case.clock.monotonic_ms() == 60_000
    assert 0.9 * 9 * 60 <= case.metadata.requests - 2 * case.metadata.reads <= 10 * 60
    assert 58 <= case.metadata.reads <= 64, "once a second: another voter may lead the log"


@pytest.mark.parametrize("voters", [(), ("1", "2", "3")], ids=["one voter", "three voters"])
def test_a_store_gets_one_request_in_half_a_second(waiting, voters):
    case = waiting(is_local=False)
    case.metadata.image = replace(case.metadata.image, registered_voters=voters)

    case.wait.wait(5, 60_000)

    assert case.metadata.requests <= 2 * 60 + case.metadata.read_costs()
    assert case.metadata.reads >= 5, "a log that was cleaned or went back is noticed, too"


def test_a_wait_ends_when_it_is_told_to(waiting):
    case = waiting(is_local=False)

    case.wait.wait(5, 60_000, lambda: case.clock.monotonic_ms() >= 3_000)

    assert case.clock.monotonic_ms() <= 3_100


def test_a_root_that_is_away_for_a_while_is_no_error(waiting):
    case = waiting(is_local=True)
    case.metadata.error = KafkaStorageError("away")

    def come_back():
        if case.clock.monotonic_ms() >= 100_000:
            case.metadata.error, case.metadata.end = None, 6

    case.clock.on_sleep = come_back
    assert case.wait.wait(5, 200_000).offset == 6
    assert case.clock.monotonic_ms() <= 106_000
    assert case.metadata.requests <= 60, "it is asked each five seconds"


def test_a_root_that_stays_away_is_an_error_after_a_time(waiting):
    case = waiting(is_local=True)
    case.metadata.error = KafkaStorageError("away")

    with pytest.raises(KafkaStorageError, match="away"):
        case.wait.wait(5, 10_000_000)

    assert 300_000 <= case.clock.monotonic_ms() <= 310_000


def test_a_log_that_went_back_is_an_error_at_once(waiting):
    case = waiting(is_local=True)
    case.metadata.error = InconsistentClusterError("went back")

    with pytest.raises(InconsistentClusterError):
        case.wait.wait(5, 60_000)
