"""The production services of one simulated process, wired as spark/wiring/services.py wires them.

What runs on executors here is what runs there: `fetch`, `create_replica`, the probe of a root.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_on_spark.controller.commands.commands import Command
from kafka_on_spark.controller.commands.id_source import IdSource
from kafka_on_spark.controller.pace.quiet import Marks, TableMark
from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
)
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment, segment_name
from kafka_on_spark.query.reads.read_order import ReadOrder
from kafka_on_spark.service.append.append_service import AppendService
from kafka_on_spark.service.append.appender import Appender, AppendThreads
from kafka_on_spark.service.append.plan.expanded_topics import ExpandedTopics
from kafka_on_spark.service.append.plan.stage_plan import StagedSegment, StageOrder
from kafka_on_spark.service.append.produce.producers import ProducerRuns
from kafka_on_spark.service.append.waiting.append_watch import WatchPorts
from kafka_on_spark.service.control.controller_loop import ControllerLoop
from kafka_on_spark.service.control.one_shot_commands import CommandRunner
from kafka_on_spark.service.control.removing_replicas import (
    Cleaner,
    ListOrder,
    ListResult,
    RemoveOrder,
)
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.service.probing.inspecting_leaderless import InspectionOrder, inspect_replica
from kafka_on_spark.service.probing.probes import ProbeOrder, ProbeResult
from kafka_on_spark.service.replica.creating_replicas import (
    CreateReplicaOrder,
    CreateReplicaResult,
    create_replica,
)
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.replicate.fetching.fetch_pace import FetchPace
from kafka_on_spark.service.replicate.inspecting_lost import (
    InspectLostOrder,
    InspectLostResult,
    LostReplicaInspector,
    inspect_lost,
)
from kafka_on_spark.service.replicate.lasting_errors import LastingErrors
from kafka_on_spark.service.replicate.partition_inspection import (
    PartitionFetches,
    inspect_partition,
)
from kafka_on_spark.service.replicate.quiet_partitions import MarkOrder, QuietPartitions
from kafka_on_spark.service.replicate.replication_round import ReplicationRound
from kafka_on_spark.service.replicate.second_inspection import SecondInspections
from kafka_on_spark.service.replicate.sweep_progress import SweepProgress
from tests.simulation.world.adapters import (
    FAILED,
    RECORD_BYTES,
    SimulatedMetadataLog,
    SimulatedReplicaStore,
    SimulatedSegmentStore,
    SimulatedSweepHints,
    World,
    seen_table,
)
from tests.simulation.world.cleaning import list_folders, remove_folder
from tests.simulation.world.compacting import compaction_of
from tests.simulation.world.disks import folder
from tests.simulation.world.executors import Executors
from tests.simulation.world.expiring import expiry_of
from tests.simulation.world.keyed import has_keyless
from tests.simulation.world.retaining import retention_of
from tests.simulation.world.scheduler import Clock, Lock, Node, Threads
from tests.simulation.world.tidying import upkeep_of

TIMEOUT_MS = 8_000
"""delivery.timeout.ms of a simulated cluster."""


class Worker:
    """An executor's worker: keeps its handles from task to task."""

    def __init__(self, world: World, node: Node) -> None:
        self.world = world
        self.node = node
        self.replicas = SimulatedReplicaStore(world, node)
        self.segments = SimulatedSegmentStore(world, node)
        self.clock = Clock(world.scheduler, node)


def fetch_task(worker: Worker, order: FetchOrder) -> FetchResult:
    """Bring one follower up to its leader."""
    began_ms = worker.world.scheduler.now_ms
    result = fetch(order, worker.replicas, worker.segments, worker.clock)
    note_inspection(worker.world, result, began_ms)
    return result


def inspect_partition_task(worker: Worker, orders: PartitionFetches) -> list[FetchResult]:
    """Look at all replicas of one partition."""
    began_ms = worker.world.scheduler.now_ms
    results = inspect_partition(orders, worker.replicas, worker.segments, worker.clock)
    for result in results:
        note_inspection(worker.world, result, began_ms)
    for order in orders:
        _note_tables(worker.world, order)
    return results


def _note_tables(world: World, order: FetchOrder) -> None:
    for address in filter(None, (order.leader, order.follower)):
        table = world.disks.roots[address.root].tables.get(folder(address))
        if table is not None:
            world.read_tables[address.key, address.broker_id] = seen_table(table)


def mark_task(worker: Worker, order: MarkOrder) -> Marks:
    """Look at the newest commits of a partition's tables."""
    return tuple(_mark(worker.world, each) for each in order.addresses)


def _mark(world: World, address: ReplicaAddress) -> TableMark | None:
    root = world.disks.roots[address.root]
    table = root.tables.get(folder(address)) if root.can_read else None
    if table is None:
        return None
    place, found = (address.key, address.broker_id), seen_table(table)
    if world.read_tables.get(place) == found:  # it is as it was read: a look inspects it
        world.seen["idle replica looked at"] += 1
        world.inspected_at_ms[place] = max(
            world.scheduler.now_ms, world.inspected_at_ms.get(place, 0.0)
        )
    return TableMark(table.state.version, found)


def note_inspection(world: World, result: FetchResult, began_ms: float) -> None:
    """Note which replicas were read by an inspection that began then."""
    for seen in (result.report.leader, *result.report.followers):
        if seen.error_code == NO_ERROR:
            place = (result.report.key, seen.broker_id)
            world.inspected_at_ms[place] = max(began_ms, world.inspected_at_ms.get(place, 0.0))


def command_task(worker: Worker, order: FetchOrder) -> FetchResult:
    """Fence tables at a leadership that has begun: a fetch, as in spark/wiring/services.py."""
    result = fetch_task(worker, order)
    is_refused = result.report.leader.error_code != NO_ERROR
    worker.world.seen["command refused" if is_refused else "leadership commanded"] += 1
    worker.world.seen["deposed leader cut by a command"] += result.truncated_records > 0
    return result


def create_replica_task(worker: Worker, order: CreateReplicaOrder) -> CreateReplicaResult:
    """Make one empty replica."""
    return create_replica(order, worker.replicas)


def inspect_task(worker: Worker, order: InspectionOrder) -> ReplicaInspection | None:
    """Say what one replica's log holds."""
    return inspect_replica(order, worker.replicas)


def inspect_lost_task(worker: Worker, order: InspectLostOrder) -> InspectLostResult:
    """Say whether a replica that was lost is whole."""
    return inspect_lost(order, worker.replicas, worker.segments)


def probe_task(worker: Worker, order: ProbeOrder) -> ProbeResult:
    """Ask one root whether it answers, is its disk, and takes writes."""
    root = worker.world.disks.roots[order.root]
    try:
        if worker.world.scheduler.call("probe", root) in FAILED:
            raise KafkaStorageError("the root does not answer")
        root.check_reads()
        if root.directory_id != order.directory_id:
            raise KafkaStorageError("the root is not the disk it was")
        root.check_writes()
    except KafkaOnSparkError as error:
        code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
        return ProbeResult(order.broker_id, code, error.message)
    return ProbeResult(order.broker_id, NO_ERROR)


def list_task(worker: Worker, order: ListOrder) -> ListResult:
    """Say which tables stand on one root."""
    return list_folders(worker.world, order)


def remove_task(worker: Worker, order: RemoveOrder) -> str | None:
    """Remove one table."""
    return remove_folder(worker.world, order)


@dataclass(slots=True)
class Workers:
    """The executors of the cluster: few, shared by all drivers."""

    world: World
    seed: int
    skews: random.Random
    alive: list[Worker] = field(default_factory=list)
    started: int = 0
    count: int = 2

    def pick(self) -> Worker:
        """Return the next worker in turn; one that was killed is replaced by a new one."""
        self.alive = [each for each in self.alive if each.node.is_alive]
        while len(self.alive) < self.count:
            self.started += 1
            node = Node(f"executor{self.started}", self.seed, self.skews.randrange(-2000, 2000))
            self.alive.append(Worker(self.world, node))
        self.alive.append(self.alive.pop(0))
        return self.alive[-1]


class Driver:
    """A process that holds a cluster open: what `Services` is in production."""

    def __init__(self, world: World, node: Node, workers: Workers, *, twin_chance: float) -> None:
        self.world = world
        self.node = node
        self.worker = Worker(world, node)
        self.clock = self.worker.clock
        self.metadata = MetadataService(
            SimulatedMetadataLog(world, node), self.clock, random=node.rng.random
        )
        self.metadata._lock = Lock(world.scheduler)  # type: ignore[assignment]
        self.executors = Executors(world, node, workers.pick, twin_chance=twin_chance)
        self.threads = Threads(world.scheduler, node)
        # Without jitter: a draw for each fetch would give every seed another run.
        self.pace = FetchPace(self.clock, random=lambda: 0.5)
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
            lasting=LastingErrors(
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
            threads=AppendThreads(self.threads, self.threads),  # type: ignore[arg-type]
            random=node.rng.random,
            second_inspections=self.second_inspections,
        )
        self.quiet = QuietPartitions(
            self.clock, lambda orders: self.executors.run(mark_task, orders)
        )
        self.upkeep = upkeep_of(self)
        self.retention = retention_of(self, timeout_ms=TIMEOUT_MS)
        self.compaction = compaction_of(self, timeout_ms=TIMEOUT_MS)
        self.expiry = expiry_of(self)
        self.appends = AppendService(
            self.metadata,
            self.producers,
            appender,
            self.clock,
            create_replicas=lambda keys: self.replication_round().create_replicas(keys),
            expanded=ExpandedTopics(
                self.metadata,
                self.worker.replicas,
                self.worker.segments,
                self.clock,
                create_replicas=lambda keys: self.replication_round().create_replicas(keys),
                threads=self.threads,  # type: ignore[arg-type]
            ),
            maintain=lambda image, keys: None,
            note_findings=lambda: None,
            watch_ports=WatchPorts(
                metadata=self.metadata,
                clock=self.clock,
                run_probes=lambda orders: self.threads.map(
                    lambda order: probe_task(self.worker, order), orders
                ),
                find_whole=lambda image, keys: [],
                controller_id=node.name,
                caller=node.name,
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
            quiet=self.quiet if self.world.sweeps_quietly else None,
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
            clean=self.cleaner.clean,
            run_commands=lambda orders: self.executors.run(command_task, orders),
            retention=self.retention,
            expiry=self.expiry,
            compaction=self.compaction,
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

        `parts`: values of each segment, by partition. Source: storage/staging/staging.py.

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
