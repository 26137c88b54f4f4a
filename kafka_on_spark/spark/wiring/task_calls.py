"""Runs each kind of task on its orders: by a task runner, on executors or in threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.controller.pace.quiet import Marks
from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.ports.process import TaskRunner
from kafka_on_spark.service.compact.replica_looks import CompactionLook, CompactionLookOrder
from kafka_on_spark.service.control.removing_replicas import ListOrder, ListResult, RemoveOrder
from kafka_on_spark.service.describe.log_descriptions import LogDescription
from kafka_on_spark.service.maintain.root_upkeep import VisitOrder, VisitResult
from kafka_on_spark.service.maintain.upkeep_work import UpkeepOrder, UpkeepResult
from kafka_on_spark.service.probing.inspecting_leaderless import InspectionOrder
from kafka_on_spark.service.probing.probes import ProbeOrder, ProbeResult
from kafka_on_spark.service.replica.creating_replicas import CreateReplicaOrder, CreateReplicaResult
from kafka_on_spark.service.replica.log_starts import LogStartOrder
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult
from kafka_on_spark.service.replicate.inspecting_lost import InspectLostOrder, InspectLostResult
from kafka_on_spark.service.replicate.partition_inspection import PartitionFetches
from kafka_on_spark.service.replicate.quiet_partitions import MarkOrder
from kafka_on_spark.service.retain.leader_looks import LookOrder, LookResult
from kafka_on_spark.spark.run.task_runner import ThreadTaskRunner
from kafka_on_spark.spark.run.tasks import (
    compaction_look_task,
    create_replica_task,
    description_task,
    fetch_task,
    inspect_lost_task,
    inspect_partition_task,
    inspect_task,
    list_task,
    log_start_task,
    look_task,
    mark_task,
    probe_task,
    remove_task,
    size_task,
    upkeep_task,
    visit_task,
)
from kafka_on_spark.storage.roots.roots import StorageOptions

Order = TypeVar("Order")
Result = TypeVar("Result")

LOCAL_CREATIONS_MAX: Final = 32
"""So few tables are created in this process faster than a Spark job begins."""

LOCAL_LOOKS_MAX: Final = 8
"""So few logs are looked at in this process faster than a Spark job begins."""


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

    def inspect_partitions(self, orders: Sequence[PartitionFetches]) -> list[list[FetchResult]]:
        """Inspect all replicas of partitions."""
        return self.runner.run(partial(inspect_partition_task, options=self.options), orders)

    def mark(self, orders: Sequence[MarkOrder]) -> list[Marks]:
        """Look which commits of partitions' tables are the newest."""
        return self.runner.run(partial(mark_task, options=self.options), orders)

    def create_replicas(self, orders: Sequence[CreateReplicaOrder]) -> list[CreateReplicaResult]:
        """Create replicas' tables."""
        create = partial(create_replica_task, options=self.options)
        if len(orders) <= LOCAL_CREATIONS_MAX:
            return self.in_threads(create, orders)
        return self.runner.run(create, orders)

    def probe(self, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
        """Probe brokers' roots."""
        return self.runner.run(partial(probe_task, options=self.options), orders)

    def list_tables(self, orders: Sequence[ListOrder]) -> list[ListResult]:
        """List the tables on roots."""
        return self.runner.run(partial(list_task, options=self.options), orders)

    def remove_tables(self, orders: Sequence[RemoveOrder]) -> list[str | None]:
        """Remove tables."""
        return self.runner.run(partial(remove_task, options=self.options), orders)

    def inspect_replicas(self, orders: Sequence[InspectionOrder]) -> list[ReplicaInspection | None]:
        """Inspect the replicas of partitions without a leader."""
        return self.runner.run(partial(inspect_task, options=self.options), orders)

    def inspect_lost(self, orders: Sequence[InspectLostOrder]) -> list[InspectLostResult]:
        """Inspect replicas that are taken for lost."""
        return self.runner.run(partial(inspect_lost_task, options=self.options), orders)

    def maintain(self, orders: Sequence[UpkeepOrder]) -> list[UpkeepResult]:
        """Do the upkeep of replicas.

        Raises:
            KafkaStorageError: Spark has given the job up. What is left is found again.
        """
        return self._run_upkeep(partial(upkeep_task, options=self.options), orders)

    def visit_roots(self, orders: Sequence[VisitOrder]) -> list[VisitResult]:
        """Remove what killed processes left on roots.

        Raises: as `maintain`.
        """
        return self._run_upkeep(partial(visit_task, options=self.options), orders)

    def _run_upkeep(self, task: Callable[[Order], Result], orders: Sequence[Order]) -> list[Result]:
        try:
            return self.runner.run(task, orders)
        except KafkaOnSparkError:
            raise
        except Exception as error:  # whatever Spark calls the loss of an executor
            raise KafkaStorageError(f"the executors did not do it: {error}") from error

    def describe(self, orders: Sequence[UpkeepOrder]) -> list[LogDescription]:
        """Say what replicas' logs are like, and what of their upkeep is due."""
        describe = partial(description_task, options=self.options)
        if len(orders) <= LOCAL_LOOKS_MAX:
            return self.in_threads(describe, orders)
        return self.runner.run(describe, orders)

    def measure(self, orders: Sequence[ReplicaAddress]) -> list[int | None]:
        """Return the bytes of replicas."""
        return self.runner.run(partial(size_task, options=self.options), orders)

    def look_at_leaders(self, orders: Sequence[LookOrder]) -> list[LookResult]:
        """Say what retention may delete of leaders' logs."""
        look = partial(look_task, options=self.options)
        if len(orders) <= LOCAL_LOOKS_MAX:
            return self.in_threads(look, orders)
        return self.runner.run(look, orders)

    def look_at_replicas(self, orders: Sequence[CompactionLookOrder]) -> list[CompactionLook]:
        """Say what of partitions may be compacted, and how far their replicas are."""
        look = partial(compaction_look_task, options=self.options)
        if len(orders) <= LOCAL_LOOKS_MAX:
            return self.in_threads(look, orders)
        return self.runner.run(look, orders)

    def advance_log_starts(self, orders: Sequence[LogStartOrder]) -> list[str | None]:
        """Have replicas drop the records below their partitions' log starts."""
        return self.runner.run(partial(log_start_task, options=self.options), orders)
