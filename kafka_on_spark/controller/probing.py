"""Does what `probes` says: probes brokers' roots by tasks, and where an append writes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kafka_on_spark.base.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    ProtocolError,
)
from kafka_on_spark.base.metric import PROBE_FAILURES, PROBE_MS
from kafka_on_spark.base.text import visible
from kafka_on_spark.controller.probes import ProbeOrder, ProbeResult
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.counts import Counts
from kafka_on_spark.store.deadlines import begin
from kafka_on_spark.store.requests import PROBE, operating
from kafka_on_spark.store.root_identity import probe_root


def probe_task(order: ProbeOrder, worker: Worker) -> ProbeResult:
    """Check that one root answers, is the broker's disk, and takes writes. A task."""
    began_ms = worker.clock.precise_ms()
    result = _probe_root(order, worker)
    return replace(result, took_ms=worker.clock.precise_ms() - began_ms)


def _probe_root(order: ProbeOrder, worker: Worker) -> ProbeResult:
    try:
        begin(
            order.root,
            lambda: probe_root(order.root, order.directory_id, worker.options, order.size_bytes),
        ).in_time(order.timeout_ms / 1000)
    except KafkaOnSparkError as error:
        code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
        # A fencing takes these words as its cause, which is printed for people.
        return ProbeResult(order.broker_id, code, visible(error.message))
    return ProbeResult(order.broker_id, NO_ERROR)


def probe(node: Node, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
    """Probe roots where tasks run, and count the probes."""
    with operating(PROBE):
        results = node.tasks.run(probe_task, orders)
    count_probes(node.counts, results)
    return results


def probe_where_it_appends(node: Node, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
    """Probe roots from this process, which commits appends, and from the executors, which write
    their files: a root is reachable if one executor reaches it.

    Raises:
        KafkaStorageError: Spark has given the job up, so the result is unknown.
    """
    results = node.tasks.run_here(probe_task, orders)
    failed = [order for order, each in zip(orders, results, strict=True) if not each.is_answer]
    found = node.tasks.run_elsewhere(probe_task, failed)
    elsewhere = {each.broker_id for each in found if each.is_answer}
    return [
        ProbeResult(each.broker_id, NO_ERROR) if each.broker_id in elsewhere else each
        for each in results
    ]


def count_probes(counts: Counts, results: Iterable[ProbeResult]) -> None:
    """Count probes by broker, with how long they took. A count of failures begins with the first
    probe, at 0 if that is answered: an alert sees the first failure as a rise."""
    for each in results:
        if each.took_ms is not None:
            counts.observe(PROBE_MS, each.took_ms, broker=each.broker_id)
        counts.count(PROBE_FAILURES, int(not each.is_answer), broker=each.broker_id)
