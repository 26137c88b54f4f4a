"""The tasks of what keeps a cluster going: rounds of replication, passes of the controller, upkeep
and checks. As `tasks`, they are top-level functions of picklable orders, and may run twice.

Apart from `tasks`: a process that appends and reads needs none of them.
"""

from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.controller.compaction import CompactionReport
from kafka_on_spark.controller.compaction_passes import CompactionLookOrder, run_compaction_look
from kafka_on_spark.controller.inspections import InspectLostOrder, inspect_lost
from kafka_on_spark.controller.log_start import LeaderLook
from kafka_on_spark.controller.passes import Look
from kafka_on_spark.controller.removing_replicas import ListOrder, ListResult, RemoveOrder
from kafka_on_spark.controller.retention import LookOrder, run_look
from kafka_on_spark.controller.root_upkeep import VisitOrder, VisitResult
from kafka_on_spark.fsck.archive import ReplicaArchive
from kafka_on_spark.fsck.replica_audit import AuditOrder, audit_replica
from kafka_on_spark.fsck.trace import ReplicaTrace
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.compactor import Compactor
from kafka_on_spark.log.fetch import FetchResult, PartitionFetches, inspect_partition
from kafka_on_spark.log.replica_folders import ReplicaFolders, remove_table, tables_on
from kafka_on_spark.log.replica_upkeep import WORKS, run_upkeep
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.log.upkeep_work import (
    Allowance,
    UpkeepOrder,
    UpkeepPorts,
    UpkeepResult,
    Work,
    WorkDone,
)
from kafka_on_spark.metadata.temporaries import clean_broker_root
from kafka_on_spark.node.opening import replica_store
from kafka_on_spark.node.tasks import after_fetch
from kafka_on_spark.observe.replicas import (
    LogDescription,
    begun_description,
    describe_log,
    size_of,
)
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.requests import operating
from kafka_on_spark.store.root_identity import check_directory, check_obeys, root_now_ms
from kafka_on_spark.store.roots import StorageOptions, is_local


def inspect_partition_task(orders: PartitionFetches, options: StorageOptions) -> list[FetchResult]:
    """Look at all replicas of one partition."""
    replicas = replica_store(options)
    results = inspect_partition(orders, replicas, SegmentStore(options), SystemClock())
    for order, result in zip(orders, results, strict=True):
        after_fetch(order, result, replicas)
    return results


def upkeep_task(order: UpkeepOrder, options: StorageOptions) -> UpkeepResult:
    """Do the upkeep of one replica that is due."""
    try:
        # One call for all of it: each of its many steps would be handed to another thread.
        return within(order.address.root, lambda: run_upkeep(order, _upkeep_ports(options), _WORKS))
    except KafkaOnSparkError as error:
        return UpkeepResult.failed(order, error)


def _charged(name: str, work: Work) -> Work:
    """Return a kind of upkeep as an operation."""

    def run(order: UpkeepOrder, ports: UpkeepPorts, allowance: Allowance) -> WorkDone:
        with operating(name):
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
        segments=SegmentStore(options),
        folders=ReplicaFolders(options),
        compactor=Compactor(options),
        clock=SystemClock(),
    )


def look_task(order: LookOrder, options: StorageOptions) -> Look[LeaderLook]:
    """Say what retention may delete of one leader's log."""

    def now_ms(address: ReplicaAddress) -> int:
        return root_now_ms(address.root, address.directory_id, options)

    return run_look(order, replica_store(options), now_ms)


def compaction_look_task(
    order: CompactionLookOrder, options: StorageOptions
) -> Look[CompactionReport]:
    """Say what of one partition may be compacted, and how far its replicas are."""

    def now_ms(address: ReplicaAddress) -> int:
        return root_now_ms(address.root, address.directory_id, options)

    return run_compaction_look(order, replica_store(options), now_ms)


def inspect_lost_task(order: InspectLostOrder, options: StorageOptions) -> bool | None:
    """Say whether a replica that was lost is whole."""
    return inspect_lost(order, replica_store(options), SegmentStore(options))


def list_task(order: ListOrder, options: StorageOptions) -> ListResult:
    """Return the tables on one root."""
    try:
        check_directory(order.root, order.directory_id, options)
        found = tuple(tables_on(order.broker_id, order.root, options, order.topic_ids))
        return ListResult(broker_id=order.broker_id, tables=found)
    except KafkaOnSparkError as error:
        return ListResult(broker_id=order.broker_id, error=error.message)


def visit_task(order: VisitOrder, options: StorageOptions) -> VisitResult:
    """Remove what killed processes left on one root; a store is asked for no replica folders, since
    nothing is left there."""
    clock = SystemClock()
    began_ms = clock.monotonic_ms()

    def is_over() -> bool:
        most_ms = order.work_ms_max
        return most_ms is not None and clock.monotonic_ms() - began_ms >= most_ms

    try:
        check_obeys(order.root, order.directory_id, order.registered_voters, options)
        tables = _folders_of(order, options) if is_local(order.root) else []
        cleaned = clean_broker_root(
            order.root, tables, options, begins_at=order.begins_at, is_over=is_over
        )
    except KafkaOnSparkError as error:
        return VisitResult(error=error.message)
    return VisitResult(left_at=cleaned.left_at, error=cleaned.error)


def _folders_of(order: VisitOrder, options: StorageOptions) -> list[str]:
    return [each.path for each in tables_on(order.broker_id, order.root, options, None)]


def remove_task(order: RemoveOrder, options: StorageOptions) -> str | None:
    """Remove one table; return why it could not be, or None."""
    try:
        remove_table(
            order.root,
            order.directory_id,
            order.table,
            options,
            registered_voters=order.registered_voters,
        )
    except KafkaOnSparkError as error:
        return error.message
    return None


def size_task(order: ReplicaAddress, options: StorageOptions) -> int | None:
    """Return the bytes of one replica."""
    return size_of(order, replica_store(options))


def audit_task(order: AuditOrder, options: StorageOptions) -> ReplicaTrace:
    """Check one replica's history; read only."""
    return audit_replica(order, ReplicaArchive(options))
