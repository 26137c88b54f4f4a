"""The production composition of one process, on simulated metadata, replicas, tasks and clock."""

from typing import Any

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import BrokerId, IdSource
from kafka_on_spark.controller.commands import Command, run_command
from kafka_on_spark.controller.controller_loop import ControllerLoop, ExpiryChecks, silent_groups
from kafka_on_spark.controller.inspections import SecondInspections
from kafka_on_spark.controller.replication_round import ReplicationRound, finish_compaction
from kafka_on_spark.controller.scheduler import scheduler
from kafka_on_spark.controller.upkeep import Upkeep
from kafka_on_spark.log.batch import Segment, segment_name
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.node import Node, hint_roots
from kafka_on_spark.produce.append_rounds import AppendThreads
from kafka_on_spark.produce.staging import StagedSegment, StageOrder
from kafka_on_spark.store.counts import Counts
from kafka_on_spark.store.storage_options import StorageOptions
from tests.simulation.world.executors import Executors
from tests.simulation.world.keyed import has_keyless
from tests.simulation.world.metadata_log import SimulatedHintRoots, SimulatedMetadataLog
from tests.simulation.world.scheduler import Lock, Threads
from tests.simulation.world.scheduler import Node as SimulatedNode
from tests.simulation.world.segment_store import RECORD_BYTES
from tests.simulation.world.workers import SimulatedTasks, Worker, Workers
from tests.simulation.world.world import World

TIMEOUT_MS = 8_000
"""delivery.timeout.ms of a simulated cluster."""


class Process(Node):
    """A process's node, as production has it, on a simulated cluster."""

    timeout_ms = TIMEOUT_MS  # type: ignore[assignment]


class Nothing:
    """Maintenance that nobody does: each program does its own."""

    def run(self, *arguments: object) -> None:
        pass

    def add(self, works: object) -> None:
        pass


class Decisions(Upkeep):
    """What is decided of topics' cleanup.policy, if anything is in this simulation. In shares no
    replica is visited: that is a tidier's."""

    def __init__(self, process: Process, world: World) -> None:
        super().__init__(process)
        retention, compaction = self.passes
        self.passes = (
            *([retention] if world.deletes else []),
            *([compaction] if "compact" in world.works else []),
        )

    def _visit_share(self, *arguments: object) -> None:
        pass


class Driver:
    """A process that holds a cluster open."""

    def __init__(
        self, world: World, node: SimulatedNode, workers: Workers, *, twin_chance: float
    ) -> None:
        self.world = world
        self.node = node
        self.worker = Worker(world, node)
        self.own_clock = self.worker.clock
        self.threads = Threads(world.scheduler, node)
        self.metadata = MetadataService(
            SimulatedMetadataLog(world, node), self.own_clock, random=node.rng.random
        )
        self.metadata._lock = Lock(world.scheduler)  # type: ignore[assignment]
        executors = Executors(world, node, workers.pick, twin_chance=twin_chance)
        self.process = Process(
            self.metadata,
            SimulatedTasks(self.worker, self.threads, executors),  # type: ignore[arg-type]
            options=StorageOptions(),
            controller_id=node.name,
            counts=Counts(lambda: 0.0),
            maintenance=Nothing(),  # type: ignore[arg-type]
            ids=IdSource(
                new_uuid=lambda: f"renewed{node.new_uuid()}", random_below=node.rng.randrange
            ),
            random=node.rng.random,
            host=node.name,
            caller=node.name,
            parts={
                AppendThreads: self.threads,
                hint_roots: SimulatedHintRoots(world),
                silent_groups: Nothing(),
                **({ExpiryChecks: Nothing()} if world.silent_ms is None else {}),
            },
        )
        self.clock = self.process.clock
        self.process._parts[Upkeep] = Decisions(self.process, world)

    @property
    def second_inspections(self) -> SecondInspections:
        return self.process.part(SecondInspections)

    @property
    def upkeep(self) -> Upkeep:
        return self.process.part(Upkeep)

    def begin_sweep(self) -> None:
        """Know nothing of the sweep but what its hint says, as a job that has just begun."""
        self.process._parts.pop(scheduler, None)

    def replication_round(self) -> ReplicationRound:
        return ReplicationRound(self.process)

    def finish_compaction(self, order: ReadOrder) -> None:
        """Have a leader compacted that can't be read before, as a reader does."""
        finish_compaction(self.process, order)

    def controller_loop(self) -> ControllerLoop:
        """Return a controllership that has not begun."""
        return ControllerLoop(self.process)

    def command(self, command: Command[Any], **arguments: object) -> None:
        """Run a one-shot command: here, or asked for in the log."""
        run_command(self.process, command, **arguments)

    def stage(self, order: StageOrder, parts: dict[int, list[list[int]]]) -> list[StagedSegment]:
        """Write the segments of an append to the roots of `order`, as its tasks do.

        `parts`: values of each segment, by partition. Source: produce/staging.py.
        """
        rows = []
        for number, segments in sorted(parts.items()):
            target = order.targets[number]
            for values in segments:
                segment: Segment | None = self._segment(target.leader_epoch, values)
                holders: list[BrokerId | None] = []
                for addresses in (target.replicas, target.others):
                    if addresses and all(each is None for each in holders):
                        holders += self.threads.map(
                            lambda address, segment=segment: self._put(address, segment), addresses
                        )
                refusal = None
                if all(each is None for each in holders):
                    segment, refusal = None, KafkaStorageError("the records reached no root")
                rows.append(
                    StagedSegment(
                        partition=number,
                        segment=segment,
                        payload_digest=sum(values) if order.has_producer else 0,
                        holders=tuple(each for each in holders if each is not None),
                        has_keyless=has_keyless(values),
                        refusal=refusal,
                    )
                )
        return rows

    def _segment(self, leader_epoch: int, values: list[int]) -> Segment:
        digest = "_".join(map(str, values))
        time_us = self.clock.now_ms() * 1000 if self.world.deletes else 0
        return Segment(
            file_name=segment_name(leader_epoch, self.node.new_uuid(), digest),
            size_bytes=RECORD_BYTES * len(values),
            record_count=len(values),
            timestamp_min_us=time_us,
            timestamp_max_us=time_us + len(values),
        )

    def _put(self, address: ReplicaAddress, segment: Segment) -> BrokerId | None:
        try:
            self.worker.segments.put(address, segment)
        except KafkaOnSparkError:
            return None
        return address.broker_id
