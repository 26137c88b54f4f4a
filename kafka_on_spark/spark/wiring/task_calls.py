"""Runs each kind of task on its orders: by a task runner, on executors or in threads.

The tasks that a process may need which appends or reads; `keeping_calls` has the others.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.ports.process import TaskRunner
from kafka_on_spark.service.probing.inspecting_leaderless import InspectionOrder
from kafka_on_spark.service.probing.probes import ProbeOrder, ProbeResult
from kafka_on_spark.service.replica.creating_replicas import CreateReplicaOrder, CreateReplicaResult
from kafka_on_spark.service.replica.log_starts import LogStartOrder
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult
from kafka_on_spark.spark.run.task_runner import ThreadTaskRunner
from kafka_on_spark.spark.run.tasks import (
    create_replica_task,
    fetch_task,
    inspect_task,
    log_start_task,
    probe_task,
)
from kafka_on_spark.storage.roots.roots import StorageOptions

Order = TypeVar("Order")
Result = TypeVar("Result")

LOCAL_CREATIONS_MAX: Final = 32
"""So few tables are created in this process faster than a Spark job begins."""


@dataclass(frozen=True, slots=True)
class TaskCalls:
    """Each method returns one result an order, in order.

    Attributes:
        runner: Where tasks run.
        options: Credentials of all roots.
        threads: Of this process.
    """

    runner: TaskRunner
    options: StorageOptions
    threads: Executor

    @property
    def are_in_this_process(self) -> bool:
        """Whether tasks run in threads of this process."""
        return isinstance(self.runner, ThreadTaskRunner)

    def in_threads(self, work: Callable[[Order], Result], orders: Sequence[Order]) -> list[Result]:
        """Return the results of `work`, done in threads of this process."""
        return list(self.threads.map(work, orders))

    def fetch(self, orders: Sequence[FetchOrder]) -> list[FetchResult]:
        """Fetch from leaders to followers."""
        return self.runner.run(partial(fetch_task, options=self.options), orders)

    def create_replicas(self, orders: Sequence[CreateReplicaOrder]) -> list[CreateReplicaResult]:
        """Create replicas' tables."""
        create = partial(create_replica_task, options=self.options)
        if len(orders) <= LOCAL_CREATIONS_MAX:
            return self.in_threads(create, orders)
        return self.runner.run(create, orders)

    def probe(self, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
        """Probe brokers' roots."""
        return self.runner.run(partial(probe_task, options=self.options), orders)

    def inspect_replicas(self, orders: Sequence[InspectionOrder]) -> list[ReplicaInspection | None]:
        """Inspect the replicas of partitions without a leader."""
        return self.runner.run(partial(inspect_task, options=self.options), orders)

    def advance_log_starts(self, orders: Sequence[LogStartOrder]) -> list[str | None]:
        """Have replicas drop the records below their partitions' log starts."""
        return self.runner.run(partial(log_start_task, options=self.options), orders)
