"""The tasks of executors, or of threads without Spark: top-level functions of picklable orders.

A task may run twice, also at the same time (retry, speculation): so every file has its own name,
and every commit is conditional. A task answers in results with error codes. A task that raises has
failed, and Spark runs it again. Handles stay open for the life of a worker.
"""

import logging
from dataclasses import replace
from typing import Final

from kafka_on_spark.base.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    ProtocolError,
)
from kafka_on_spark.base.visible import visible
from kafka_on_spark.controller.creating_replicas import (
    CreateReplicaOrder,
    CreateReplicaResult,
    create_replica,
)
from kafka_on_spark.controller.inspections import InspectionOrder, inspect_replica
from kafka_on_spark.controller.probes import ProbeOrder, ProbeResult
from kafka_on_spark.log.fetch import FetchOrder, FetchResult, fetch
from kafka_on_spark.log.replica_operations import LogStartOrder, run_log_start
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.metadata.reports import ReplicaInspection
from kafka_on_spark.node.opening import replica_store
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.deadlines import begin
from kafka_on_spark.store.root_identity import probe_root
from kafka_on_spark.store.roots import StorageOptions

log = logging.getLogger(__name__)

LOCAL_CREATIONS_MAX: Final = 32
"""So few tables are created in this process faster than a Spark job begins."""


def fetch_task(order: FetchOrder, options: StorageOptions) -> FetchResult:
    """Bring one follower up to its leader."""
    replicas = replica_store(options)
    result = fetch(order, replicas, SegmentStore(options), SystemClock())
    after_fetch(order, result, replicas)
    return result


def after_fetch(order: FetchOrder, result: FetchResult, replicas: ReplicaStore) -> None:
    """Do what is due at a follower that got records."""
    if order.follower is not None and result.copied_records:
        replicas.open(order.follower).maintain()
        log.debug("%d records copied to broker %d", result.copied_records, order.follower.broker_id)


def create_replica_task(order: CreateReplicaOrder, options: StorageOptions) -> CreateReplicaResult:
    """Make one empty replica."""
    return create_replica(order, replica_store(options))


def log_start_task(order: LogStartOrder, options: StorageOptions) -> str | None:
    """Advance one replica's log start to drop deleted records."""
    return run_log_start(order, replica_store(options))


def inspect_task(order: InspectionOrder, options: StorageOptions) -> ReplicaInspection | None:
    """Say what one replica's log holds."""
    return inspect_replica(order, replica_store(options))


def probe_task(order: ProbeOrder, options: StorageOptions) -> ProbeResult:
    """Check that one root answers, is the broker's disk, and takes writes."""
    clock = SystemClock()
    began_ms = clock.precise_ms()
    result = _probe(order, options)
    return replace(result, took_ms=clock.precise_ms() - began_ms)


def _probe(order: ProbeOrder, options: StorageOptions) -> ProbeResult:
    try:
        begin(
            order.root,
            lambda: probe_root(order.root, order.directory_id, options, order.size_bytes),
        ).in_time(order.timeout_ms / 1000)
    except KafkaOnSparkError as error:
        code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
        # A fencing takes these words as its cause, which is printed for people.
        return ProbeResult(order.broker_id, code, visible(error.message))
    return ProbeResult(order.broker_id, NO_ERROR)
