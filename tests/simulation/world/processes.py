"""The production services of one simulated process, wired as node/services.py wires them."""

from collections.abc import Callable, Sequence
from typing import Any

from kafka_on_spark.base.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller.commands import Command
from kafka_on_spark.controller.controller_loop import Chores, ControllerLoop, Expiry
from kafka_on_spark.controller.creating_replicas import CreateReplicaOrder, CreateReplicaResult
from kafka_on_spark.controller.fetch_plan import FetchPace
from kafka_on_spark.controller.inspections import LostReplicaInspector
from kafka_on_spark.controller.one_shot_commands import CommandRunner
from kafka_on_spark.controller.removing_replicas import Cleaner
from kafka_on_spark.controller.replication_round import ReplicationRound
from kafka_on_spark.controller.second_inspection import SecondInspections, UnreadableLeaders
from kafka_on_spark.controller.sweep_progress import SweepProgress
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment, segment_name
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.result import IdSource
from kafka_on_spark.observe.counts import Counts
from kafka_on_spark.produce.append import AppendService
from kafka_on_spark.produce.append_watch import WatchPorts
from kafka_on_spark.produce.appender import Appender
from kafka_on_spark.produce.idempotence import ProducerRuns
from kafka_on_spark.produce.stage_plan import StagedSegment, StageOrder
from tests.simulation.world.compacting import compaction_of
from tests.simulation.world.executors import Executors
from tests.simulation.world.keyed import has_keyless
from tests.simulation.world.metadata_log import SimulatedMetadataLog, SimulatedSweepHints
from tests.simulation.world.retaining import retention_of
from tests.simulation.world.scheduler import Lock, Node, Threads
from tests.simulation.world.segment_store import RECORD_BYTES
from tests.simulation.world.tidying import upkeep_of
from tests.simulation.world.workers import (
    Worker,
    Workers,
    create_replica_task,
    fetch_task,
    inspect_lost_task,
    inspect_partition_task,
    inspect_task,
    list_task,
    probe_task,
    remove_task,
)
from tests.simulation.world.world import World

TIMEOUT_MS = 8_000
"""delivery.timeout.ms of a simulated cluster."""


class Driver:
    """A process that holds a cluster open: what `Services` is in production."""

    def __init__(self, world: World, node: Node, workers: Workers, *, twin_chance: float) -> None:
        self.world = world
        self.node = node
        self.worker = Worker(world, node)
        self.own_clock = self.worker.clock
        self.metadata = MetadataService(
            SimulatedMetadataLog(world, node), self.own_clock, random=node.rng.random
        )
        self.clock = self.metadata.clock
        self.metadata._lock = Lock(world.scheduler)  # type: ignore[assignment]
        self.executors = Executors(world, node, workers.pick, twin_chance=twin_chance)
        self.threads = Threads(world.scheduler, node)
        self.pace = FetchPace(self.clock)
        self.begin_sweep()
        self.producers = ProducerRuns(self.metadata, self.clock, timeout_ms=TIMEOUT_MS)
        self.cleaner = Cleaner(
            self.metadata,
            self.clock,
            run_lists=lambda orders: self.executors.run(list_task, orders),
            run_removes=lambda orders: self.executors.run(remove_task, orders),
        )
        self.second_inspections = SecondInspections(
            self.metadata,
            self.clock,
            run=lambda orders: self.threads.map(
                lambda order: fetch_task(self.worker, order), orders
            ),
            unreadable=UnreadableLeaders(
                self.metadata,
                self.clock,
                run_probes=lambda orders: self._here(probe_task, orders),
                run_inspections=lambda orders: self._here(inspect_task, orders),
                timeout_ms=TIMEOUT_MS,
            ),
            timeout_ms=TIMEOUT_MS,
        )
        self.lost_inspector = LostReplicaInspector(
            self.clock,
            run_lost_inspections=lambda orders: self.executors.run(inspect_lost_task, orders),
        )
        appender = Appender(
            self.metadata,
            self.worker.replicas,
            self.worker.segments,
            self.clock,
            threads=self.threads,  # type: ignore[arg-type]
            random=node.rng.random,
            second_inspections=self.second_inspections,
        )
        self.upkeep = upkeep_of(self)
        self.retention = retention_of(self, timeout_ms=TIMEOUT_MS)
        self.compaction = compaction_of(self, timeout_ms=TIMEOUT_MS)
        self.expiry = None if world.silent_ms is None else Expiry(self.metadata.clock)
        self.appends = AppendService(
            self.metadata,
            self.producers,
            appender,
            self.clock,
            create_replicas=lambda keys: self.replication_round().create_replicas(keys),
            maintain=lambda image, keys: None,
            note_findings=lambda: None,
            recorder=Counts(lambda: 0.0),
            watch_ports=WatchPorts(
                metadata=self.metadata,
                clock=self.clock,
                run_probes=lambda orders: self.threads.map(
                    lambda order: probe_task(self.worker, order), orders
                ),
                find_whole=lambda image, keys: [],
                controller_id=node.name,
                caller=node.name,
                host=node.name,
            ),
        )

    def begin_sweep(self) -> None:
        """Know nothing of the sweep but what its hint says, as a job that has just begun."""
        self.sweep = SweepProgress(
            self.clock, SimulatedSweepHints(self.world), random_below=self.node.rng.randrange
        )

    def replication_round(self) -> ReplicationRound:
        """Return what plans and concludes rounds."""
        return ReplicationRound(
            self.metadata,
            self.clock,
            sweep=self.sweep,
            run_fetches=lambda orders: self.executors.run(fetch_task, orders),
            run_inspections=lambda each: self.executors.run(inspect_partition_task, each),
            run_creations=self._run_creations,
            new_uuid=lambda: f"renewed{self.node.new_uuid()}",
            timeout_ms=TIMEOUT_MS,
            second_inspections=self.second_inspections,
            lost_inspector=self.lost_inspector,
            pace=self.pace,
            compact_followers=self.upkeep.compact_followers,
            run_probes=lambda orders: self.executors.run(probe_task, orders),
            host=self.node.name,
        )

    def finish_compaction(self, order: ReadOrder) -> None:
        """Have a leader compacted that can't be read before, as a reader does."""
        self.world.seen["compacted by a reader"] += 1
        self.replication_round().run([order.name.topic])
        self.upkeep.finish_compaction([order.key])

    def _here(self, task: Callable[[Worker, Any], Any], orders: Sequence[Any]) -> list[Any]:
        """Do tasks in this process."""
        return self.threads.map(lambda order: task(self.worker, order), orders)

    def _run_creations(self, orders: list[CreateReplicaOrder]) -> list[CreateReplicaResult]:
        return self.threads.map(lambda order: create_replica_task(self.worker, order), orders)

    def controller_loop(self) -> ControllerLoop:
        """Return a controllership that has not begun."""
        return ControllerLoop(
            self.metadata,
            self.clock,
            controller_id=self.node.name,
            run_probes=lambda orders: self.executors.run(probe_task, orders),
            run_inspections=lambda orders: self.executors.run(inspect_task, orders),
            id_source=self.id_source,
            timeout_ms=TIMEOUT_MS,
            lost_inspector=self.lost_inspector,
            chores=Chores(
                clean=self.cleaner.clean,
                retention=self.retention,
                expiry=self.expiry,
                compaction=self.compaction,
            ),
        )

    @property
    def id_source(self) -> IdSource:
        """What this process's decisions make up."""
        return IdSource(
            new_uuid=lambda: f"renewed{self.node.new_uuid()}",
            random_below=self.node.rng.randrange,
        )

    def command(self, command: Command[Any], **arguments: object) -> None:
        """Run a one-shot command: here, or asked for in the log."""
        runner = CommandRunner(
            self.metadata, self.clock, controller_id=self.node.name, id_source=self.id_source
        )
        runner.run(command.order(**arguments), timeout_ms=TIMEOUT_MS)

    def stage(self, order: StageOrder, parts: dict[int, list[list[int]]]) -> list[StagedSegment]:
        """Write the segments of an append to the roots of `order`, as its tasks do.

        `parts`: values of each segment, by partition. Source: produce/staging.py.

        Raises:
            KafkaStorageError: The records of a partition reached no root.
        """
        rows = []
        for number, segments in sorted(parts.items()):
            target = order.targets[number]
            for values in segments:
                segment = self._segment(target.leader_epoch, values)
                holders: list[BrokerId | None] = []
                for addresses in (target.replicas, target.others):
                    if addresses and all(each is None for each in holders):
                        holders += self.threads.map(
                            lambda address, segment=segment: self._put(address, segment), addresses
                        )
                if all(each is None for each in holders):
                    raise KafkaStorageError("the records reached no root")
                rows.append(
                    StagedSegment(
                        partition=number,
                        segment=segment,
                        payload_digest=sum(values) if order.has_producer else 0,
                        holders=tuple(each for each in holders if each is not None),
                        has_keyless=has_keyless(values),
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
