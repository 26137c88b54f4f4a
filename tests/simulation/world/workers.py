"""The workers of simulated executors, and the tasks that run in them, which are those of production."""

import random
from dataclasses import dataclass, field

from kafka_on_spark.base.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
)
from kafka_on_spark.controller.creating_replicas import (
    CreateReplicaOrder,
    CreateReplicaResult,
    create_replica,
)
from kafka_on_spark.controller.inspections import (
    InspectionOrder,
    InspectLostOrder,
    inspect_lost,
    inspect_replica,
)
from kafka_on_spark.controller.probes import ProbeOrder, ProbeResult
from kafka_on_spark.controller.removing_replicas import ListOrder, ListResult, RemoveOrder
from kafka_on_spark.log.fetch import (
    FetchOrder,
    FetchResult,
    PartitionFetches,
    fetch,
    inspect_partition,
)
from kafka_on_spark.metadata.reports import ReplicaInspection
from tests.simulation.world.cleaning import list_folders, remove_folder
from tests.simulation.world.replica_log import SimulatedReplicaStore
from tests.simulation.world.scheduler import Clock, Node
from tests.simulation.world.segment_store import SimulatedSegmentStore
from tests.simulation.world.world import FAILED, World


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
    return results


def note_inspection(world: World, result: FetchResult, began_ms: float) -> None:
    """Note which replicas were read by an inspection that began then."""
    for seen in (result.report.leader, *result.report.followers):
        if seen.error_code == NO_ERROR:
            place = (result.report.key, seen.broker_id)
            world.inspected_at_ms[place] = max(began_ms, world.inspected_at_ms.get(place, 0.0))


def create_replica_task(worker: Worker, order: CreateReplicaOrder) -> CreateReplicaResult:
    """Make one empty replica."""
    return create_replica(order, worker.replicas)


def inspect_task(worker: Worker, order: InspectionOrder) -> ReplicaInspection | None:
    """Say what one replica's log holds."""
    return inspect_replica(order, worker.replicas)


def inspect_lost_task(worker: Worker, order: InspectLostOrder) -> bool | None:
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
        root.check_writes(is_small=not order.size_bytes)
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
