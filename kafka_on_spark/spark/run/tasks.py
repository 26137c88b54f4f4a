"""The tasks of executors, or of threads without Spark: top-level functions of picklable orders.

A task may run twice, also at the same time (retry, speculation): so every file has its own name,
and every commit is conditional. A task answers in results with error codes. A task that raises has
failed, and Spark runs it again. Handles stay open for the life of a worker.
"""

import logging
from dataclasses import replace
from typing import Final

from kafka_on_spark.audit.trace import ReplicaTrace
from kafka_on_spark.controller.pace.quiet import Marks
from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.errors import NO_ERROR, UNKNOWN_SERVER_ERROR, KafkaOnSparkError, ProtocolError
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.ports.replicas import ReplicaStore
from kafka_on_spark.service.compact.replica_looks import (
    CompactionLook,
    CompactionLookOrder,
    run_compaction_look,
)
from kafka_on_spark.service.control.removing_replicas import ListOrder, ListResult, RemoveOrder
from kafka_on_spark.service.describe.log_descriptions import (
    LogDescription,
    begun_description,
    describe_log,
)
from kafka_on_spark.service.describe.sizes import size_of
from kafka_on_spark.service.fsck.replica_audit import AuditOrder, audit_replica
from kafka_on_spark.service.maintain.replica_upkeep import WORKS, run_upkeep
from kafka_on_spark.service.maintain.root_upkeep import VisitOrder, VisitResult
from kafka_on_spark.service.maintain.upkeep_work import (
    Allowance,
    UpkeepOrder,
    UpkeepPorts,
    UpkeepResult,
    Work,
    WorkDone,
)
from kafka_on_spark.service.probing.inspecting_leaderless import InspectionOrder, inspect_replica
from kafka_on_spark.service.probing.probes import ProbeOrder, ProbeResult
from kafka_on_spark.service.replica.creating_replicas import (
    CreateReplicaOrder,
    CreateReplicaResult,
    create_replica,
)
from kafka_on_spark.service.replica.log_starts import LogStartOrder, run_log_start
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.replicate.inspecting_lost import (
    InspectLostOrder,
    InspectLostResult,
    inspect_lost,
)
from kafka_on_spark.service.replicate.partition_inspection import (
    PartitionFetches,
    inspect_partition,
)
from kafka_on_spark.service.replicate.quiet_partitions import MarkOrder
from kafka_on_spark.service.retain.leader_looks import LookOrder, LookResult, run_look
from kafka_on_spark.spark.run.opening import replica_store
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.calls.deadlines import all_within, within
from kafka_on_spark.storage.compaction.compactor import FileCompactor
from kafka_on_spark.storage.identity.root_clock import root_now_ms
from kafka_on_spark.storage.identity.root_identity import check_directory, probe_root
from kafka_on_spark.storage.ledger.ledger import for_topic, within_operation
from kafka_on_spark.storage.replicas.archives.archive import FileReplicaArchive
from kafka_on_spark.storage.replicas.folder_cleaning import FileReplicaFolders
from kafka_on_spark.storage.replicas.replica_folders import remove_table, tables_on
from kafka_on_spark.storage.replicas.segment_store import FileSegmentStore
from kafka_on_spark.storage.replicas.table_marks import table_marks
from kafka_on_spark.storage.roots.roots import StorageOptions, is_local
from kafka_on_spark.storage.temporaries import clean_broker_root
from kafka_on_spark.visible import visible

log = logging.getLogger(__name__)


def fetch_task(order: FetchOrder, options: StorageOptions) -> FetchResult:
    """Bring one follower up to its leader."""
    replicas = replica_store(options)
    with for_topic(order.leader.topic):
        result = fetch(order, replicas, FileSegmentStore(options), SystemClock())
        _after_fetch(order, result, replicas)
    return result


def _after_fetch(order: FetchOrder, result: FetchResult, replicas: ReplicaStore) -> None:
    if order.follower is not None and result.copied_records:
        replicas.open(order.follower).maintain()
        log.debug("%d records copied to broker %d", result.copied_records, order.follower.broker_id)


def inspect_partition_task(orders: PartitionFetches, options: StorageOptions) -> list[FetchResult]:
    """Look at all replicas of one partition."""
    replicas = replica_store(options)
    results = inspect_partition(orders, replicas, FileSegmentStore(options), SystemClock())
    for order, result in zip(orders, results, strict=True):
        _after_fetch(order, result, replicas)
    return results


def mark_task(order: MarkOrder, options: StorageOptions) -> Marks:
    """Say which commits of a partition's tables are the newest."""
    return table_marks(order, options)


def upkeep_task(order: UpkeepOrder, options: StorageOptions) -> UpkeepResult:
    """Do the upkeep of one replica that is due."""
    try:
        # One call for all of it: each of its many steps would be handed to another thread.
        with for_topic(order.address.topic):
            return within(
                order.address.root, lambda: run_upkeep(order, _upkeep_ports(options), _WORKS)
            )
    except KafkaOnSparkError as error:
        return UpkeepResult.failed(order, error)


def _charged(name: str, work: Work) -> Work:
    """Return a kind of upkeep as an operation of the ledger."""

    def run(order: UpkeepOrder, ports: UpkeepPorts, allowance: Allowance) -> WorkDone:
        with within_operation(name):
            return work(order, ports, allowance)

    return run


_WORKS: Final = tuple((name, _charged(name, work)) for name, work in WORKS)


def description_task(order: UpkeepOrder, options: StorageOptions) -> LogDescription:
    """Say what one replica's log is like, and what of its upkeep is due; read only."""
    try:
        return within(order.address.root, lambda: describe_log(order, _upkeep_ports(options)))
    except KafkaOnSparkError as error:
        return begun_description(order, error.message)


def _upkeep_ports(options: StorageOptions) -> UpkeepPorts:
    return UpkeepPorts(
        replicas=replica_store(options),
        segments=FileSegmentStore(options),
        folders=FileReplicaFolders(options),
        compactor=FileCompactor(options),
        clock=SystemClock(),
    )


def create_replica_task(order: CreateReplicaOrder, options: StorageOptions) -> CreateReplicaResult:
    """Make one empty replica."""
    return create_replica(order, replica_store(options))


def log_start_task(order: LogStartOrder, options: StorageOptions) -> str | None:
    """Advance one replica's log start to drop deleted records."""
    return run_log_start(order, replica_store(options))


def look_task(order: LookOrder, options: StorageOptions) -> LookResult:
    """Say what retention may delete of one leader's log."""

    def now_ms(address: ReplicaAddress) -> int:
        return root_now_ms(address.root, address.directory_id, options)

    return run_look(order, replica_store(options), now_ms)


def compaction_look_task(order: CompactionLookOrder, options: StorageOptions) -> CompactionLook:
    """Say what of one partition may be compacted, and how far its replicas are."""

    def now_ms(address: ReplicaAddress) -> int:
        return root_now_ms(address.root, address.directory_id, options)

    return run_compaction_look(order, replica_store(options), now_ms)


def inspect_task(order: InspectionOrder, options: StorageOptions) -> ReplicaInspection | None:
    """Say what one replica's log holds."""
    return inspect_replica(order, replica_store(options))


def inspect_lost_task(order: InspectLostOrder, options: StorageOptions) -> InspectLostResult:
    """Say whether a replica that was lost is whole."""
    return inspect_lost(order, replica_store(options), FileSegmentStore(options))


def probe_task(order: ProbeOrder, options: StorageOptions) -> ProbeResult:
    """Check that one root answers, is the broker's disk, and takes writes."""
    clock = SystemClock()
    began_ms = clock.precise_ms()
    result = _probe(order, options)
    return replace(result, took_ms=clock.precise_ms() - began_ms)


def _probe(order: ProbeOrder, options: StorageOptions) -> ProbeResult:
    try:
        all_within(
            order.root,
            lambda: probe_root(order.root, order.directory_id, options),
            order.timeout_ms / 1000,
        )
    except KafkaOnSparkError as error:
        code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
        # A fencing takes these words as its cause, which is printed for people.
        return ProbeResult(order.broker_id, code, visible(error.message))
    return ProbeResult(order.broker_id, NO_ERROR)


def list_task(order: ListOrder, options: StorageOptions) -> ListResult:
    """Return the tables on one root."""
    try:
        check_directory(order.root, order.directory_id, options)
        found = tuple(tables_on(order.broker_id, order.root, options, order.topic_ids))
        return ListResult(broker_id=order.broker_id, tables=found)
    except KafkaOnSparkError as error:
        return ListResult(broker_id=order.broker_id, error=error.message)


def visit_task(order: VisitOrder, options: StorageOptions) -> VisitResult:
    """Remove what killed processes left on one root. A store has an object whole or not at all."""
    if not is_local(order.root):
        return VisitResult()
    clock = SystemClock()
    began_ms = clock.monotonic_ms()

    def is_over() -> bool:
        most_ms = order.work_ms_max
        return most_ms is not None and clock.monotonic_ms() - began_ms >= most_ms

    try:
        check_directory(order.root, order.directory_id, options)
        tables = [each.path for each in tables_on(order.broker_id, order.root, options, None)]
        cleaned = clean_broker_root(
            order.root, tables, options, begins_at=order.begins_at, is_over=is_over
        )
    except KafkaOnSparkError as error:
        return VisitResult(error=error.message)
    return VisitResult(left_at=cleaned.left_at, error=cleaned.error)


def remove_task(order: RemoveOrder, options: StorageOptions) -> str | None:
    """Remove one table; return why it could not be, or None."""
    try:
        remove_table(order.root, order.directory_id, order.table, options)
    except KafkaOnSparkError as error:
        return error.message
    return None


def size_task(order: ReplicaAddress, options: StorageOptions) -> int | None:
    """Return the bytes of one replica."""
    return size_of(order, replica_store(options))


def audit_task(order: AuditOrder, options: StorageOptions) -> ReplicaTrace:
    """Check one replica's history; read only."""
    return audit_replica(order, FileReplicaArchive(options))
