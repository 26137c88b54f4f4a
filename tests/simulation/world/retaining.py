"""Retention as simulated processes do it: looks at leaders' logs by executors, and disks' clocks."""

from typing import TYPE_CHECKING

from kafka_on_spark.controller.log_start import LeaderLook
from kafka_on_spark.controller.passes import Look
from kafka_on_spark.controller.retention import LookOrder, Retention, run_look
from kafka_on_spark.log.replica_operations import LogStartOrder, run_log_start

if TYPE_CHECKING:
    from tests.simulation.world.processes import Driver
    from tests.simulation.world.workers import Worker


def look_task(worker: "Worker", order: LookOrder) -> Look[LeaderLook]:
    """Say what retention may delete of one leader's log."""
    world = worker.world

    result = run_look(order, worker.replicas, world.root_now_ms)
    # The answer of a task may take longer than an election.
    worker.clock.sleep_ms(worker.node.rng.choice([0, 0, 0, 1500]))
    world.seen["leader looked at"] += result.report is not None
    world.seen["leader's log refused a look"] += result.report is None
    return result


def log_start_task(worker: "Worker", order: LogStartOrder) -> str | None:
    """Apply a decided log start to one replica."""
    return run_log_start(order, worker.replicas)


def retention_of(driver: "Driver", *, timeout_ms: int) -> Retention | None:
    """Return a process's retention, if anything is deleted in this simulation."""
    if not driver.world.deletes:
        return None
    return Retention(
        driver.metadata,
        driver.own_clock,
        driver.metadata.clock,
        run_looks=lambda orders: driver.executors.run(look_task, orders),
        run_log_starts=lambda orders: driver.executors.run(log_start_task, orders),
        random_below=driver.node.rng.randrange,
        timeout_ms=timeout_ms,
    )
