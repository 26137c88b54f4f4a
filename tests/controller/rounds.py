"""A cluster of three brokers in memory whose rounds of replication tests run."""

from dataclasses import replace
from math import inf

from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.controller.creating_replicas import create_replica
from kafka_on_spark.controller.fetch_plan import FetchPace
from kafka_on_spark.controller.replication_round import ReplicationRound
from kafka_on_spark.controller.second_inspection import SecondInspections
from kafka_on_spark.controller.sweep_progress import SweepProgress
from kafka_on_spark.log import operations
from kafka_on_spark.log.fetch import fetch
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import HighWatermarkRecord
from kafka_on_spark.metadata.result import ControllerResult
from tests.builders import TOPIC_ID, address, disk, image_of, partition, staged, stamp
from tests.fakes import (
    FakeClock,
    MemoryMetadataLog,
    MemoryReplicaStore,
    MemoryRoots,
    MemorySegmentStore,
    MemorySweepHints,
)

EPOCH = LeaderEpoch(5)


class Rounds:
    """A cluster of three brokers in memory, its rounds, and what they fetched."""

    def __init__(self, partition_count=1, *, isr="1 2 3", configs=None, settings=None, **fields):
        self.clock = FakeClock()
        roots = {f"memory://{each}": disk(each) for each in (1, 2, 3)}
        self.roots = MemoryRoots(roots)
        self.replicas = MemoryReplicaStore(self.roots)
        self.segments = MemorySegmentStore(self.roots)
        partitions = [
            replace(partition("1 2 3", isr=isr), **fields) for _ in range(partition_count)
        ]
        self.log = MemoryMetadataLog()
        self.metadata = MetadataService(self.log, self.clock, random=lambda: 0.0)
        start = replace(image_of(*partitions, configs=configs), configs=settings or {})
        self.submit(snapshot_records(start))
        self.keys = [PartitionKey(TOPIC_ID, number) for number in range(partition_count)]
        for key in self.keys:
            for each in (1, 2, 3):
                self.replicas.create(address(each, key=key))
        self.pace = FetchPace(self.clock)
        self.second_inspections = SecondInspections(
            self.metadata, self.clock, run=self._run_fetches, timeout_ms=1000
        )
        self.hints = MemorySweepHints()
        self.compact_followers = lambda followers: False
        self.run_probes = None
        self.sweep = SweepProgress(self.clock, self.hints, random_below=lambda below: 0)
        self.orders = []

    def submit(self, records):
        self.metadata.submit(lambda image: ControllerResult(records, None), timeout_ms=1000)

    def append(self, number, name, count=1, *, counts="1", producer=None):
        """Append `count` batches to a partition's leader; record where it ends.

        `counts`: the records of each of a batch's segments, a record has 100 bytes. `producer`: the
        id under which they are numbered from 0 on.
        """
        key = self.keys[number]
        place = address(1, key=key)
        replica = self.replicas.open(place)
        state = replica.load()
        if not state.is_fenced_at(EPOCH):
            change = operations.adopt(state, leader_epoch=EPOCH, truncate_to=None, floor=Offset(0))
            state = replica.commit(state, change)
        for turn in range(count):
            header = None if producer is None else stamp(turn, producer=producer)
            batch = staged(f"{name}{turn}", counts, epoch=EPOCH, producer=header)
            for segment in batch.segments:
                self.segments.put(place, segment)
            change = operations.append(state, batch, leader_epoch=EPOCH, now_ms=self.clock.now_ms())
            state = replica.commit(state, change)
        registration = self.metadata.image.partition(key)
        record = HighWatermarkRecord(
            topic_id=key.topic_id,
            partition=key.partition,
            leader_epoch=EPOCH,
            partition_epoch=registration.partition_epoch,
            high_watermark=None,
            high_watermark_epoch=None,
            high_watermark_chain=None,
            log_end_offset=state.log_end_offset,
        )
        self.submit([record])

    def run(self, *, is_sweep=False, copy_ms_max=inf, **call):
        """Do one round; `call`: settings, dots as underlines."""
        settings = {name.replace("_", "."): str(value) for name, value in call.items()}
        self.orders = []
        self.waited = []
        return ReplicationRound(
            self.metadata,
            self.clock,
            sweep=self.sweep,
            run_fetches=self._run_fetches,
            run_inspections=lambda each: [self._run_fetches(orders) for orders in each],
            run_creations=lambda orders: [create_replica(each, self.replicas) for each in orders],
            new_uuid=lambda: "another",
            timeout_ms=1000,
            second_inspections=self.second_inspections,
            pace=self.pace,
            overrides=settings,
            compact_followers=self._compact_followers,
            run_probes=self.run_probes,
            host="here",
        ).run(is_sweep=is_sweep, copy_ms_max=copy_ms_max)

    def _compact_followers(self, followers):
        self.waited.append({key.partition: list(each) for key, each in followers.items()})
        return self.compact_followers(followers)

    def _run_fetches(self, orders):
        self.orders.extend(orders)
        return [fetch(each, self.replicas, self.segments, self.clock) for each in orders]

    def fetched(self, *, is_inspection=None):
        """Return what the last round fetched, as (partition, follower); `is_inspection`: by its slice."""
        return sorted(
            {
                (each.key.partition, each.follower.broker_id)
                for each in self.orders
                if is_inspection is None or is_inspection == (each.copy_bytes_max == 0)
            }
        )

    def end(self, broker_id, number=0):
        return self.replicas.open(address(broker_id, key=self.keys[number])).load().log_end_offset
