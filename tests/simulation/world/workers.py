"""The workers of simulated executors, and what takes the place of tasks that touch a root."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from kafka_on_spark.base.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
)
from kafka_on_spark.controller import cleanup_policy, probes, replica_tables
from kafka_on_spark.controller.probes import ProbeOrder, ProbeResult
from kafka_on_spark.controller.replica_tables import create_replica_task
from kafka_on_spark.controller.upkeep import clean_root_task
from kafka_on_spark.log import fetch as log_fetch
from kafka_on_spark.log import replica_upkeep
from kafka_on_spark.log.fetch import (
    FetchOrder,
    FetchResult,
    PartitionFetches,
    fetch,
)
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.node.node import Tasks
from tests.simulation.world.cleaning import list_folders, remove_folder
from tests.simulation.world.compacting import SimulatedCompactor
from tests.simulation.world.replica_log import SimulatedReplicaStore
from tests.simulation.world.scheduler import Clock, Node
from tests.simulation.world.segment_store import SimulatedSegmentStore
from tests.simulation.world.tidying import SimulatedReplicaFolders, upkeep_task
from tests.simulation.world.world import FAILED, World


class Worker:
    """An executor's worker, or a process's own: keeps its handles from task to task."""

    def __init__(self, world: World, node: Node) -> None:
        self.world = world
        self.node = node
        self.replicas = SimulatedReplicaStore(world, node)
        self.segments = SimulatedSegmentStore(world, node)
        self.folders = SimulatedReplicaFolders(world)
        self.compactor = SimulatedCompactor(world, node, self.segments)
        self.clock = Clock(world.scheduler, node)

    def root_now_ms(self, address: ReplicaAddress) -> int:
        return self.world.root_now_ms(address)

    def root_generation(self, root: str) -> int:
        """Return 0: no simulated cluster is forced."""
        return 0


def fetch_task(order: FetchOrder, worker: Worker) -> FetchResult:
    began_ms = worker.world.scheduler.now_ms
    result = fetch(order, worker.replicas, worker.segments, worker.clock)
    note_inspection(worker.world, result, began_ms)
    return result


def inspect_partition_task(orders: PartitionFetches, worker: Worker) -> list[FetchResult]:
    began_ms = worker.world.scheduler.now_ms
    opened = cache(worker.replicas.open_uncached)
    results = [
        fetch(order, worker.replicas, worker.segments, worker.clock, open_uncached=opened)
        for order in orders
    ]
    for result in results:
        note_inspection(worker.world, result, began_ms)
    return results


def note_inspection(world: World, result: FetchResult, began_ms: float) -> None:
    for seen in (result.report.leader, *result.report.followers):
        if seen.error_code == NO_ERROR:
            place = (result.report.key, seen.broker_id)
            world.inspected_at_ms[place] = max(began_ms, world.inspected_at_ms.get(place, 0.0))


def probe_task(order: ProbeOrder, worker: Worker) -> ProbeResult:
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


def slowly(inspect: Callable[..., Any]) -> Callable[..., Any]:
    """Inspect as production does; the answer of a task may take longer than an election."""

    def task(order: Any, worker: Worker) -> Any:
        look = inspect(order, worker)
        worker.clock.sleep_ms(worker.node.rng.choice([0, 0, 0, 1500]))
        return look

    return task


SIMULATED: Final[Mapping[Callable[..., Any], Callable[..., Any]]] = {
    log_fetch.fetch_task: fetch_task,
    log_fetch.inspect_partition_task: inspect_partition_task,
    replica_upkeep.upkeep_task: upkeep_task,
    probes.probe_task: probe_task,
    replica_tables.list_task: list_folders,
    replica_tables.remove_task: remove_folder,
    cleanup_policy.inspect_for_retention: slowly(cleanup_policy.inspect_for_retention),
    cleanup_policy.inspect_for_compaction: slowly(cleanup_policy.inspect_for_compaction),
}
"""What is done in place of tasks that touch a root besides its replicas, or whose ends are noted.
All others are those of production."""


class SimulatedTasks(Tasks):
    """Runs tasks by simulated executors, but for creations: production does few of them itself."""

    def run(self, task: Any, orders: Sequence[Any], *, few: int = 0) -> list[Any]:
        if task is clean_root_task:  # killed processes leave nothing outside of replicas' folders
            return [None] * len(orders)
        if task is create_replica_task:
            return self.run_here(task, orders)
        return super().run(SIMULATED.get(task, task), orders)

    def run_here(self, task: Any, orders: Sequence[Any]) -> list[Any]:
        return super().run_here(SIMULATED.get(task, task), orders)


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
