"""Runs the tasks of what keeps a cluster going, besides those that every process may run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.service.compact.replica_looks import CompactionLook, CompactionLookOrder
from kafka_on_spark.service.control.removing_replicas import ListOrder, ListResult, RemoveOrder
from kafka_on_spark.service.describe.log_descriptions import LogDescription
from kafka_on_spark.service.maintain.root_upkeep import VisitOrder, VisitResult
from kafka_on_spark.service.maintain.upkeep_work import UpkeepOrder, UpkeepResult
from kafka_on_spark.service.replicate.fetching.fetch import FetchResult
from kafka_on_spark.service.replicate.inspecting_lost import InspectLostOrder, InspectLostResult
from kafka_on_spark.service.replicate.partition_inspection import PartitionFetches
from kafka_on_spark.service.retain.leader_looks import LookOrder, LookResult
from kafka_on_spark.spark.run.keeping_tasks import (
    compaction_look_task,
    description_task,
    inspect_lost_task,
    inspect_partition_task,
    list_task,
    look_task,
    remove_task,
    size_task,
    upkeep_task,
    visit_task,
)
from kafka_on_spark.spark.wiring.task_calls import TaskCalls

Order = TypeVar("Order")
Result = TypeVar("Result")

LOCAL_LOOKS_MAX: Final = 8
"""So few logs are looked at in this process faster than a Spark job begins."""


@dataclass(frozen=True, slots=True)
class KeepingCalls(TaskCalls):
    """Each method returns one result an order, in order."""

    def inspect_partitions(self, orders: Sequence[PartitionFetches]) -> list[list[FetchResult]]:
        """Inspect all replicas of partitions."""
        return self.runner.run(partial(inspect_partition_task, options=self.options), orders)

    def list_tables(self, orders: Sequence[ListOrder]) -> list[ListResult]:
        """List the tables on roots."""
        return self.runner.run(partial(list_task, options=self.options), orders)

    def remove_tables(self, orders: Sequence[RemoveOrder]) -> list[str | None]:
        """Remove tables."""
        return self.runner.run(partial(remove_task, options=self.options), orders)

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
