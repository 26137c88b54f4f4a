"""Probes from where an append writes: this process, and the executors of its session."""

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

from kafka_on_spark.errors import NO_ERROR, KafkaStorageError
from kafka_on_spark.ports.process import TaskRunner
from kafka_on_spark.service.probing.probes import ProbeOrder, ProbeResult
from kafka_on_spark.spark.run.task_runner import SparkTaskRunner
from kafka_on_spark.spark.run.tasks import probe_task
from kafka_on_spark.storage.roots.roots import StorageOptions


def probe_where_it_appends(
    orders: Sequence[ProbeOrder],
    *,
    threads: Executor,
    runner: TaskRunner,
    options: StorageOptions,
) -> list[ProbeResult]:
    """Probe roots from this process, which commits appends, and from the executors, which write
    their files: a root is reachable if one executor reaches it.

    Executors within this process are not asked: they reach what this process reaches.

    Raises:
        KafkaStorageError: Spark has given the job up, so the result is unknown.
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
