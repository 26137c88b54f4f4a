"""What runs on executors, and in threads without Spark: top-level functions of picklable orders.

A task may run twice, and both runs at once (retry, speculation): every file has a name of its
own, every commit is conditional. A task answers in rows with error codes; whatever it raises
fails it, and Spark runs it again. Handles are kept for the life of a worker.
"""

import logging

from kafka_on_spark.audit.trace import ReplicaTrace
from kafka_on_spark.controller.recovery import ReplicaLook
from kafka_on_spark.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    ProtocolError,
)
from kafka_on_spark.ports import ReplicaAddress, ReplicaStore
from kafka_on_spark.service.audit import AuditOrder, audit_replica
from kafka_on_spark.service.cleaning import ListOrder, ListResult, RemoveOrder
from kafka_on_spark.service.log_starts import LogStartOrder, run_log_start
from kafka_on_spark.service.making import MakeOrder, MakeResult, make_replica
from kafka_on_spark.service.partition_looks import LookOrders, look_at_partition
from kafka_on_spark.service.probes import ProbeOrder, ProbeResult
from kafka_on_spark.service.recovery import LookOrder, look_at
from kafka_on_spark.service.replication import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.restoring import RestoreOrder, RestoreResult, look_at_lost
from kafka_on_spark.service.sizes import size_of
from kafka_on_spark.spark.opening import replica_store
from kafka_on_spark.storage.archive import FileReplicaArchive
from kafka_on_spark.storage.clock import SystemClock
from kafka_on_spark.storage.deadlines import all_within
from kafka_on_spark.storage.replica_folders import remove_table, tables_on
from kafka_on_spark.storage.root_identity import check_directory, probe_root
from kafka_on_spark.storage.roots import StorageOptions
from kafka_on_spark.storage.segments import FileSegmentStore
from kafka_on_spark.storage.temporaries import clean_broker_root
from kafka_on_spark.visible import visible

log = logging.getLogger(__name__)


def fetch_task(order: FetchOrder, options: StorageOptions) -> FetchResult:
    """Bring one follower up to its leader."""
    replicas = replica_store(options)
    result = fetch(order, replicas, FileSegmentStore(options), SystemClock())
    _after_fetch(order, result, replicas)
    return result


def _after_fetch(order: FetchOrder, result: FetchResult, replicas: ReplicaStore) -> None:
    if order.follower is not None and result.copied_records:
        replicas.open(order.follower).maintain()
        log.debug("%d records copied to broker %d", result.copied_records, order.follower.broker_id)


def partition_look_task(orders: LookOrders, options: StorageOptions) -> list[FetchResult]:
    """Look at all replicas of one partition."""
    replicas = replica_store(options)
    results = look_at_partition(orders, replicas, FileSegmentStore(options), SystemClock())
    for order, result in zip(orders, results, strict=True):
        _after_fetch(order, result, replicas)
    return results


def make_task(order: MakeOrder, options: StorageOptions) -> MakeResult:
    """Make one empty replica."""
    return make_replica(order, replica_store(options))


def log_start_task(order: LogStartOrder, options: StorageOptions) -> str | None:
    """Have one replica drop the records that were deleted."""
    return run_log_start(order, replica_store(options))


def look_task(order: LookOrder, options: StorageOptions) -> ReplicaLook | None:
    """Say what one replica's log holds."""
    return look_at(order, replica_store(options))


def restore_task(order: RestoreOrder, options: StorageOptions) -> RestoreResult:
    """Say whether a replica that was lost is whole."""
    return look_at_lost(order, replica_store(options), FileSegmentStore(options))


def probe_task(order: ProbeOrder, options: StorageOptions) -> ProbeResult:
    """Ask one root whether it answers, is its disk, and takes writes."""
    try:
        all_within(
            order.root,
            lambda: probe_root(order.root, order.directory_id, options),
            order.timeout_ms / 1000,
        )
    except KafkaOnSparkError as error:
        code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
        # Fencing it, these words become a cause, which people print.
        return ProbeResult(order.broker_id, code, visible(error.message))
    return ProbeResult(order.broker_id, NO_ERROR)


def list_task(order: ListOrder, options: StorageOptions) -> ListResult:
    """Say which tables stand on one root; with a look at all of it, what killed processes have
    left unfinished there is removed."""
    try:
        check_directory(order.root, order.directory_id, options)
        found = tuple(tables_on(order.broker_id, order.root, options, order.topic_ids))
        if order.topic_ids is None:
            clean_broker_root(order.root, [each.path for each in found], options)
        return ListResult(broker_id=order.broker_id, tables=found)
    except KafkaOnSparkError as error:
        return ListResult(broker_id=order.broker_id, error=error.message)


def remove_task(order: RemoveOrder, options: StorageOptions) -> str | None:
    """Remove one table; return why it could not be, or None."""
    try:
        remove_table(order.root, order.directory_id, order.table, options)
    except KafkaOnSparkError as error:
        return error.message
    return None


def size_task(order: ReplicaAddress, options: StorageOptions) -> int | None:
    """Say how many bytes one replica has."""
    return size_of(order, replica_store(options))


def audit_task(order: AuditOrder, options: StorageOptions) -> ReplicaTrace:
    """Check one replica's history; read only."""
    return audit_replica(order, FileReplicaArchive(options))
