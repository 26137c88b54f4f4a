"""The production services of one simulated process, wired as spark/services.py wires them.

What runs on executors here is what runs there: `fetch`, `make_replica`, the probe of a root.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_on_spark.controller.commands import Command, Draws
from kafka_on_spark.controller.recovery import ReplicaLook
from kafka_on_spark.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
)
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.log.batch import Segment, segment_name
from kafka_on_spark.ports import ReplicaAddress
from kafka_on_spark.service.admin import CommandRunner
from kafka_on_spark.service.append_parts import AppendThreads
from kafka_on_spark.service.append_service import AppendService
from kafka_on_spark.service.append_watch import WatchPorts
from kafka_on_spark.service.appender import Appender
from kafka_on_spark.service.cleaning import Cleaner, ListOrder, ListResult, RemoveOrder
from kafka_on_spark.service.controller_loop import ControllerLoop
from kafka_on_spark.service.fetch_pace import FetchPace
from kafka_on_spark.service.grown_topics import GrownTopics
from kafka_on_spark.service.lasting_errors import LastingErrors
from kafka_on_spark.service.making import MakeOrder, MakeResult, make_replica
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.partition_looks import LookOrders, look_at_partition
from kafka_on_spark.service.probes import ProbeOrder, ProbeResult
from kafka_on_spark.service.producers import ProducerRuns
from kafka_on_spark.service.recovery import LookOrder, look_at
from kafka_on_spark.service.replication import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.replication_round import ReplicationRound
from kafka_on_spark.service.restoring import (
    RestoreOrder,
    Restorer,
    RestoreResult,
    look_at_lost,
)
from kafka_on_spark.service.second_look import SecondLooks
from kafka_on_spark.service.stage_plan import StagedSegment, StageOrder
from kafka_on_spark.service.sweeping import Sweep
from tests.simulation.adapters import (
    FAILED,
    SimulatedMetadataLog,
    SimulatedReplicaStore,
    SimulatedSegmentStore,
    SimulatedSweepHints,
    World,
)
from tests.simulation.cleaning import list_folders, remove_folder
from tests.simulation.executors import Executors
from tests.simulation.scheduler import Clock, Lock, Node, Threads

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
    note_look(worker.world, result, began_ms)
    return result


def partition_look_task(worker: Worker, orders: LookOrders) -> list[FetchResult]:
    """Look at all replicas of one partition."""
    began_ms = worker.world.scheduler.now_ms
    results = look_at_partition(orders, worker.replicas, worker.segments, worker.clock)
    for result in results:
        note_look(worker.world, result, began_ms)
    return results


def note_look(world: World, result: FetchResult, began_ms: float) -> None:
    """Note which replicas were read by a look that began then."""
    for seen in (result.report.leader, *result.report.followers):
        if seen.error_code == NO_ERROR:
            place = (result.report.key, seen.broker_id)
            world.looked_at_ms[place] = max(began_ms, world.looked_at_ms.get(place, 0.0))


def command_task(worker: Worker, order: FetchOrder) -> FetchResult:
    """Fence tables at a leadership that has begun: a fetch, as in spark/services.py."""
    result = fetch_task(worker, order)
    is_refused = result.report.leader.error_code != NO_ERROR
    worker.world.seen["command refused" if is_refused else "leadership commanded"] += 1
    worker.world.seen["deposed leader cut by a command"] += result.truncated_records > 0
    return result


def make_task(worker: Worker, order: MakeOrder) -> MakeResult:
    """Make one empty replica."""
    return make_replica(order, worker.replicas)


def look_task(worker: Worker, order: LookOrder) -> ReplicaLook | None:
    """Say what one replica's log holds."""
    return look_at(order, worker.replicas)


def restore_task(worker: Worker, order: RestoreOrder) -> RestoreResult:
    """Say whether a replica that was lost is whole."""
    return look_at_lost(order, worker.replicas, worker.segments)


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
        # Without jitter: a draw for each fetch would give every seed another course.
        self.pace = FetchPace(self.clock, random=lambda: 0.5)
        self.begin_sweep()
        self.producers = ProducerRuns(self.metadata, timeout_ms=TIMEOUT_MS)
        self.cleaner = Cleaner(
            self.metadata,
            self.clock,
            run_lists=lambda orders: self.executors.run(list_task, orders),
            run_removes=lambda orders: self.executors.run(remove_task, orders),
        )
        self.looks = SecondLooks(
            self.metadata,
            self.clock,
            run=lambda orders: self.threads.map(
                lambda order: fetch_task(self.worker, order), orders
            ),
            lasting=LastingErrors(
                self.metadata,
                self.clock,
                run_probes=lambda orders: self._here(probe_task, orders),
                run_looks=lambda orders: self._here(look_task, orders),
                timeout_ms=TIMEOUT_MS,
            ),
            timeout_ms=TIMEOUT_MS,
        )
        self.restorer = Restorer(
            self.clock,
            run_restores=lambda orders: self.executors.run(restore_task, orders),
        )
        appender = Appender(
            self.metadata,
            self.worker.replicas,
            self.worker.segments,
            self.clock,
            threads=AppendThreads(self.threads, self.threads),  # type: ignore[arg-type]
            random=node.rng.random,
            looks=self.looks,
        )
        self.appends = AppendService(
            self.metadata,
            self.producers,
            appender,
            self.clock,
            replication_round=self.replication_round,
            grown=GrownTopics(
                self.metadata,
                self.worker.replicas,
                self.worker.segments,
                self.clock,
                make_replicas=lambda keys: self.replication_round().make_replicas(keys),
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
        self.sweep = Sweep(
            self.clock, SimulatedSweepHints(self.world), random_below=self.node.rng.randrange
        )

    def replication_round(self) -> ReplicationRound:
        """Return what plans and concludes rounds."""
        return ReplicationRound(
            self.metadata,
            self.clock,
            sweep=self.sweep,
            run_fetches=lambda orders: self.executors.run(fetch_task, orders),
            run_looks=lambda looks: self.executors.run(partition_look_task, looks),
            run_makes=self._run_makes,
            new_uuid=lambda: f"renewed{self.node.new_uuid()}",
            timeout_ms=TIMEOUT_MS,
            looks=self.looks,
            restorer=self.restorer,
            pace=self.pace,
        )

    def _here(self, task: Callable[[Worker, Any], Any], orders: Sequence[Any]) -> list[Any]:
        """Do tasks in this process."""
        return self.threads.map(lambda order: task(self.worker, order), orders)

    def _run_makes(self, orders: list[MakeOrder]) -> list[MakeResult]:
        return self.threads.map(lambda order: make_task(self.worker, order), orders)

    def controller_loop(self) -> ControllerLoop:
        """Return a controllership that has not begun."""
        return ControllerLoop(
            self.metadata,
            self.clock,
            controller_id=self.node.name,
            run_probes=lambda orders: self.executors.run(probe_task, orders),
            run_looks=lambda orders: self.executors.run(look_task, orders),
            draws=self.draws,
            timeout_ms=TIMEOUT_MS,
            restorer=self.restorer,
            clean=self.cleaner.clean,
            run_commands=lambda orders: self.executors.run(command_task, orders),
        )

    @property
    def draws(self) -> Draws:
        """What this process's decisions make up."""
        return Draws(
            new_uuid=lambda: f"renewed{self.node.new_uuid()}",
            random_below=self.node.rng.randrange,
        )

    def command(self, command: Command[Any], **arguments: object) -> None:
        """Run a one-shot command: here, or asked for in the log."""
        runner = CommandRunner(
            self.metadata, self.clock, controller_id=self.node.name, draws=self.draws
        )
        runner.run(command.order(**arguments), timeout_ms=TIMEOUT_MS)

    def stage(self, order: StageOrder, parts: dict[int, list[list[int]]]) -> list[StagedSegment]:
        """Write the segments of an append to the roots of `order`, as its tasks do.

        `parts`: values of each segment, by partition. Source: storage/staging.py.

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
                    )
                )
        return rows

    def _segment(self, leader_epoch: int, values: list[int]) -> Segment:
        digest = "_".join(map(str, values))
        return Segment(
            path=segment_name(leader_epoch, self.node.new_uuid(), digest),
            size_bytes=100 * len(values),
            record_count=len(values),
            timestamp_min_us=0,
            timestamp_max_us=len(values),
        )

    def _put(self, address: ReplicaAddress, segment: Segment) -> BrokerId | None:
        try:
            self.worker.segments.put(address, segment)
        except KafkaOnSparkError:
            return None
        return address.broker_id
