"""Retention as simulated processes do it: looks at leaders' logs by executors, and disks' clocks."""

from typing import TYPE_CHECKING

from kafka_on_spark.controller.cleanup_policy import CleanupOrder, inspect_for_retention
from kafka_on_spark.controller.log_start import RetentionReport
from kafka_on_spark.log.upkeep_work import WorkDone

if TYPE_CHECKING:
    from tests.simulation.world.workers import Worker


def retention_task(order: CleanupOrder, worker: "Worker") -> RetentionReport | WorkDone:
    """Say what retention may delete of one leader's log."""
    result = inspect_for_retention(order, worker)
    # The answer of a task may take longer than an election.
    worker.clock.sleep_ms(worker.node.rng.choice([0, 0, 0, 1500]))
    return result
