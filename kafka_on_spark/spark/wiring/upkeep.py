"""Wires retention, compaction and upkeep to their tasks, and to a hint at how far it is."""

import random
from collections.abc import Callable

from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.compact.compaction_passes import CompactionPasses
from kafka_on_spark.service.maintain.root_upkeep import RootUpkeep
from kafka_on_spark.service.maintain.upkeep_round import UPKEEP, ReplicaUpkeep
from kafka_on_spark.service.maintain.upkeep_watch import UpkeepWatch
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.service.replicate.second_inspection import Finding
from kafka_on_spark.service.replicate.sweep_progress import SweepProgress
from kafka_on_spark.service.retain.retention import Retention
from kafka_on_spark.spark.wiring.keeping_calls import KeepingCalls
from kafka_on_spark.storage.calls.clock import SystemClock, processor_ms
from kafka_on_spark.storage.metadata.hints.hint_file import HintRoots
from kafka_on_spark.storage.metadata.hints.root_hint import FileRootHints
from kafka_on_spark.storage.metadata.hints.sweep_hint import UPKEEP_NAME, FileSweepHints


def replica_upkeep(
    metadata: MetadataService,
    hint_roots: HintRoots,
    clock: Clock,
    tasks: KeepingCalls,
    watch: UpkeepWatch,
    record_finding: Callable[[Finding], None],
) -> ReplicaUpkeep:
    """Return the upkeep of this process."""
    hints = FileSweepHints(hint_roots, UPKEEP_NAME)
    progress = SweepProgress(clock, hints, random_below=random.randrange, pace=UPKEEP)

    roots = RootUpkeep(
        metadata,
        clock,
        hints=FileRootHints(hint_roots),
        visit=tasks.visit_roots,
    )
    return ReplicaUpkeep(
        metadata,
        clock,
        progress=progress,
        run_upkeep=tasks.maintain,
        roots=roots,
        watch=watch,
        record_finding=record_finding,
        processor_ms=processor_ms if tasks.are_in_this_process else None,
    )


def compaction_of(
    metadata: MetadataService,
    tasks: KeepingCalls,
    watch: UpkeepWatch,
    *,
    timeout_ms: int,
) -> CompactionPasses:
    """Return the decisions of compaction of this process."""
    return CompactionPasses(
        metadata,
        SystemClock(),
        metadata.clock,
        run_looks=tasks.look_at_replicas,
        timeout_ms=timeout_ms,
        random_below=random.randrange,
        watch=watch,
    )


def retention_of(
    metadata: MetadataService,
    tasks: KeepingCalls,
    watch: UpkeepWatch,
    *,
    timeout_ms: int,
) -> Retention:
    """Return the retention of this process."""
    return Retention(
        metadata,
        SystemClock(),
        metadata.clock,
        run_looks=tasks.look_at_leaders,
        run_log_starts=tasks.advance_log_starts,
        random_below=random.randrange,
        timeout_ms=timeout_ms,
        watch=watch,
    )
