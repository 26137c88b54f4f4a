"""Runs second inspections after an answer was given: later, before a process ends, or in a task.

A process that ends without closing its cluster runs them, too: what it alone has found bad would be
lost with it. Its end concerns all its clusters, so the set of those with work is a module global.
That can go once processes end only after they have closed their clusters.
"""

import atexit
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final
from weakref import WeakSet

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.process import Clock
from kafka_on_spark.controller.second_inspection import SecondInspections, UnreadableLeaders
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.evidence import is_evidence
from kafka_on_spark.log.fetch import FetchOrder, FetchResult, fetch
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.opening import open_metadata, replica_store
from kafka_on_spark.node.task_calls import TaskCalls
from kafka_on_spark.node.tasks import inspect_task, probe_task
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.root_identity import read_generation
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions

log = logging.getLogger(__name__)

_open: Final["WeakSet[SecondInspections]"] = WeakSet()


def finish(second_inspections: SecondInspections) -> None:
    """Run the second inspections that are due; what fails is left to the next that finds it."""
    try:
        second_inspections.finish()
    except KafkaOnSparkError as error:
        log.warning("what was found bad is not reported yet: %s", error)


def finish_later(second_inspections: SecondInspections, threads: Executor) -> None:
    """Have due second inspections run, if there are any, after an answer was given."""
    if second_inspections.wait_ms() is None:
        return
    _open.add(second_inspections)
    try:
        threads.submit(finish, second_inspections)
    except (
        KafkaOnSparkError
    ) as error:  # the pool has no more threads: at the end of the process then
        log.debug("second inspections are run at the end: %s", error)


def _finish_all() -> None:
    for second_inspections in list(_open):
        finish(second_inspections)


# Registered after the pools' own handlers, and so run before them: it needs their threads.
atexit.register(_finish_all)


def second_inspections_of(
    metadata: MetadataService,
    clock: Clock,
    replicas: ReplicaStore,
    tasks: TaskCalls,
    fetches: Executor,
    *,
    timeout_ms: int,
) -> SecondInspections:
    """Return what inspects again what a process with a cluster open has found bad once."""
    options = tasks.options
    segments = SegmentStore(options)
    return SecondInspections(
        metadata,
        clock,
        run=lambda orders: list(
            fetches.map(lambda order: fetch(order, replicas, segments, clock), orders)
        ),
        unreadable=UnreadableLeaders(
            metadata,
            clock,
            run_probes=tasks.of(probe_task),
            run_inspections=tasks.of(inspect_task),
            timeout_ms=timeout_ms,
            generation_of=lambda root: read_generation(root, options),
        ),
        timeout_ms=timeout_ms,
    )


class TaskFindings:
    """What a reading task has found bad. The task itself inspects it again, and reports it."""

    def __init__(self, cluster: str, storage: StorageOptions) -> None:
        self._cluster = cluster
        self._storage = storage
        self._found: list[tuple[ReplicaAddress, Segment | None, KafkaOnSparkError]] = []

    def note(
        self, address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
    ) -> None:
        """Record a replica that could not be read, if the error is evidence that it is bad."""
        if is_evidence(error):
            self._found.append((address, segment, error))

    def report(self) -> None:
        """Inspect the findings a second time, and report them."""
        if not self._found:
            return
        try:
            metadata = open_metadata(cluster_url(self._cluster), self._storage)
        except KafkaOnSparkError as error:
            log.warning("what was found bad is not reported: %s", error)
            return
        clock = SystemClock()
        second_inspections = SecondInspections(
            metadata,
            clock,
            run=partial(_fetch_each, storage=self._storage),
            timeout_ms=metadata.image.settings().integer("delivery.timeout.ms"),
        )
        for found in self._found:
            second_inspections.record_unread(*found)
        finish(second_inspections)


def _fetch_each(orders: Sequence[FetchOrder], storage: StorageOptions) -> list[FetchResult]:
    replicas, segments, clock = replica_store(storage), SegmentStore(storage), SystemClock()
    return [fetch(order, replicas, segments, clock) for order in orders]
