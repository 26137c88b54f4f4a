"""An append that waits for three brokers, on a clock that only moves when somebody sleeps."""

from dataclasses import replace

from kafka_on_spark.base.errors import NO_ERROR, KafkaStorageError, RootAccessDeniedError
from kafka_on_spark.controller.probes import ProbeResult
from kafka_on_spark.metadata.image import MetadataImage, snapshot_records
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.result import ControllerResult
from kafka_on_spark.produce.append_watch import AppendWatch, Wait, WatchPorts
from tests.builders import KEY, image_of, partition
from tests.fakes import FakeClock, MemoryMetadataLog

SESSION_MS = 9000
ENOUGH_MS = SESSION_MS + 3000
AWAY = KafkaStorageError.code
DENIED = RootAccessDeniedError.code


class World:
    """A cluster of three brokers, and an append that waits for partition 0 on all of them."""

    def __init__(self, registration=None, *, is_allowed=True, configs=None):
        self.log = MemoryMetadataLog()
        self.clock = FakeClock()
        self.metadata = self.process()
        image = image_of(registration or partition("1 2 3"))
        image = replace(image, configs={"min.insync.replicas": "2", **(configs or {})})
        self.commit(*snapshot_records(image))
        self.codes = {1: NO_ERROR, 2: NO_ERROR, 3: NO_ERROR}
        self.probed_at_ms = []
        ports = WatchPorts(
            metadata=self.metadata,
            clock=self.clock,
            run_probes=self.probe,
            find_whole=lambda image, keys: [],
            controller_id="me",
            caller="process 7 on host",
        )
        self.watch = AppendWatch(ports, is_allowed=is_allowed)

    def process(self):
        return MetadataService(self.log, self.clock, random=lambda: 0.5)

    def commit(self, *records):
        """Commit as another process does."""
        other = self.process()
        other.catch_up()
        other.submit(lambda image: ControllerResult(records, None), timeout_ms=1000)

    def decide(self, decision):
        other = self.process()
        other.catch_up()
        return other.submit(decision, timeout_ms=1000)

    def probe(self, orders):
        self.probed_at_ms.append(self.clock.monotonic_ms())
        return [ProbeResult(each.broker_id, self.codes[each.broker_id], "away") for each in orders]

    @property
    def image(self):
        return MetadataImage().replay(*self.log.batches)

    @property
    def partition(self):
        return self.image.partition(KEY)

    def wait(self, duration_ms, each_ms=lambda: None):
        """Wait as an append does, whose every try fails; return when the partition changed."""
        started_ms = self.clock.monotonic_ms()
        while self.clock.monotonic_ms() - started_ms < duration_ms:
            each_ms()
            tried = self.metadata.catch_up().partition(KEY)
            if self.has_decided:
                return self.clock.monotonic_ms() - started_ms
            self.watch.update([Wait(key=KEY, partition=tried, error="it does not answer")])
            self.clock.sleep_ms(self.watch.pause_ms(1000))
        return None

    @property
    def has_decided(self):
        claims = [each for batch in self.log.batches for each in batch.records]
        return any(getattr(each, "controller_id", None) == "me" for each in claims)
