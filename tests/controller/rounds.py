"""A cluster of three brokers in memory whose rounds of replication tests run."""

from dataclasses import replace
from math import inf
from types import SimpleNamespace

from kafka_on_spark.base.errors import NO_ERROR
from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.controller.failures import Failures
from kafka_on_spark.controller.fetch_plan import FetchPace
from kafka_on_spark.controller.inspections import (
    LostReplicaInspector,
    SecondInspections,
    UnreadableLeaders,
)
from kafka_on_spark.controller.probes import ProbeResult, probe_task
from kafka_on_spark.controller.replication_round import ReplicationRound
from kafka_on_spark.controller.scheduler import Scheduler, scheduler
from kafka_on_spark.controller.upkeep import Upkeep
from kafka_on_spark.log import operations
from kafka_on_spark.log.fetch import fetch, fetch_task, inspect_partition_task
from kafka_on_spark.metadata.image import ControllerResult, snapshot_records
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import HighWatermarkRecord
from tests.builders import TOPIC_ID, address, disk, image_of, partition, staged, stamp
from tests.fakes import (
    FakeClock,
    MemoryHintRoots,
    MemoryMetadataLog,
    MemoryReplicaStore,
    MemoryRoots,
    MemorySegmentStore,
)
from tests.nodes import node_of

EPOCH = LeaderEpoch(5)


class NothingUnreadable:
    """Counts no leaders that can't be read."""

    failing = frozenset()

    def record(self, report):
        pass

    def replace_lasting(self):
        return 0


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
        self.pace = FetchPace(SimpleNamespace(clock=self.clock))
        self.failures = Failures(SimpleNamespace(clock=self.clock))
        self.second_inspections = SecondInspections(
            node_of(
                self.metadata,
                self.clock,
                given={fetch_task: self._run_fetches},
                parts={UnreadableLeaders: NothingUnreadable()},
            )
        )
        self.hints = MemoryHintRoots()
        self.run_probes = None
        self.sweep = Scheduler(self.clock, self.hints, random_below=lambda below: 0)
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
        if state.leader_epoch != EPOCH:
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
        return ReplicationRound(self.node(), settings).run(
            is_sweep=is_sweep, copy_ms_max=copy_ms_max
        )

    def node(self):
        return node_of(
            self.metadata,
            self.clock,
            replicas=self.replicas,
            given={
                fetch_task: self._run_fetches,
                inspect_partition_task: lambda each: [self._run_fetches(one) for one in each],
                probe_task: self._run_probes,
            },
            parts={
                scheduler: self.sweep,
                FetchPace: self.pace,
                Failures: self.failures,
                SecondInspections: self.second_inspections,
                LostReplicaInspector: SimpleNamespace(inspect=lambda image: []),
                Upkeep: SimpleNamespace(compact_followers=lambda followers: False),
            },
        )

    def _run_probes(self, orders):
        if self.run_probes is None:
            return [ProbeResult(each.broker_id, NO_ERROR) for each in orders]
        return self.run_probes(orders)

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
