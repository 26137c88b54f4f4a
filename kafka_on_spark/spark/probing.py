"""Probes from where an append writes: this process, and the executors of its session."""

import os
import socket
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING

from kafka_on_spark.errors import NO_ERROR, KafkaStorageError
from kafka_on_spark.ports import TaskRunner
from kafka_on_spark.service.append_watch import WatchPorts
from kafka_on_spark.service.probes import ProbeOrder, ProbeResult
from kafka_on_spark.spark.task_runner import SparkTaskRunner
from kafka_on_spark.spark.tasks import probe_task
from kafka_on_spark.storage.roots import StorageOptions

if TYPE_CHECKING:
    from kafka_on_spark.spark.services import Services


def watch_ports(services: "Services", threads: Executor) -> WatchPorts:
    """Return what a process's appends watch with while they wait."""
    return WatchPorts(
        metadata=services.metadata,
        clock=services.clock,
        run_probes=partial(
            probe_where_it_appends,
            threads=threads,
            runner=services.runner,
            options=services.options,
        ),
        find_whole=lambda image, keys: services.restorer.look(image, keys),
        controller_id=services.controller_id,
        caller=f"process {os.getpid()} on {socket.gethostname()}",
    )


def probe_where_it_appends(
    orders: Sequence[ProbeOrder],
    *,
    threads: Executor,
    runner: TaskRunner,
    options: StorageOptions,
) -> list[ProbeResult]:
    """Probe roots from this process, which commits appends, and from the executors, which write
    them: of those, one that reaches a root is enough.

    Executors within this very process are not asked: they reach what it reaches.

    Raises:
        KafkaStorageError: Spark has given the job up: nothing is known.
    """
    probe = partial(probe_task, options=options)
    results = list(threads.map(probe, orders))
    if not isinstance(runner, SparkTaskRunner) or runner.is_local:
        return results
    failed = [order for order, each in zip(orders, results, strict=True) if not each.is_answer]
    try:
        found = runner.run_on_each(probe, failed)
    except Exception as error:  # whatever Spark calls the loss of an executor
        raise KafkaStorageError(f"the executors did not probe: {error}") from error
    elsewhere = {each.broker_id for each in found if each.is_answer}
    return [
        ProbeResult(each.broker_id, NO_ERROR) if each.broker_id in elsewhere else each
        for each in results
    ]
