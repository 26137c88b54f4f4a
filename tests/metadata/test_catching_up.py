"""Catching up: how long a root that is away is waited for, and which reads threads share."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import ProducerRecord, Stamp
from tests.fakes import MemoryMetadataLog
from tests.metadata.decisions import create_topic

STAMP = Stamp(time_ms=1)


def away_until(log, clock, moment_ms):
    log.is_offline = True

    def come_back():
        log.is_offline = clock.monotonic_ms() < moment_ms

    clock.on_sleep = come_back


def test_a_stream_fails_when_its_metadata_root_stays_away(log, clock, open_service):
    service = open_service()
    service.submit(create_topic("orders"), timeout_ms=1000)
    away_until(log, clock, 10**9)

    with pytest.raises(KafkaStorageError):
        service.catch_up_waiting()

    assert 290_000 <= clock.monotonic_ms() <= 300_000


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
