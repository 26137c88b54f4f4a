"""Second looks that are made after an answer was given: later, before a process ends, or by a task.

A process that ends without closing its cluster makes them, too: what it alone has found would go
with it.
"""

import atexit
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final
from weakref import WeakSet

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.ports import ReplicaAddress
from kafka_on_spark.service.fetch_reports import is_evidence
from kafka_on_spark.service.replication import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.second_look import SecondLooks
from kafka_on_spark.spark.opening import open_metadata, replica_store
from kafka_on_spark.storage.clock import SystemClock
from kafka_on_spark.storage.roots import StorageOptions, normalize
from kafka_on_spark.storage.segments import FileSegmentStore

log = logging.getLogger(__name__)

_open: Final["WeakSet[SecondLooks]"] = WeakSet()


def finish(looks: SecondLooks) -> None:
    """Make the second looks that are still to be made; what fails is left to who finds it next."""
    try:
        looks.finish()
    except KafkaOnSparkError as error:
        log.warning("what was found bad is not reported yet: %s", error)


def finish_later(looks: SecondLooks, threads: Executor) -> None:
    """Have the second looks made, if there are any, after an answer was given."""
    if looks.wait_ms() is None:
        return
    _open.add(looks)
    try:
        threads.submit(finish, looks)
    except KafkaOnSparkError as error:  # it has no more threads: before the process ends then
        log.debug("second looks are made at the end: %s", error)


def _finish_all() -> None:
    for looks in list(_open):
        finish(looks)


# Registered after the pools' own, whose threads the looks need: it runs before them.
atexit.register(_finish_all)


class TaskFindings:
    """What a task that reads has found bad. The task itself makes the second looks and reports."""

    def __init__(self, cluster: str, storage: StorageOptions) -> None:
        self._cluster = cluster
        self._storage = storage
        self._found: list[tuple[ReplicaAddress, Segment | None, KafkaOnSparkError]] = []

    def note(
        self, address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
    ) -> None:
        """Take note of a replica that could not be read, if it is wrong."""
        if is_evidence(error):
            self._found.append((address, segment, error))

    def report(self) -> None:
        """Look at what was found a second time, and report it."""
        if not self._found:
            return
        try:
            metadata = open_metadata(normalize(self._cluster), self._storage)
        except KafkaOnSparkError as error:
            log.warning("what was found bad is not reported: %s", error)
            return
        clock = SystemClock()
        looks = SecondLooks(
            metadata,
            clock,
            run=partial(_fetch_each, storage=self._storage),
            timeout_ms=metadata.image.settings().integer("delivery.timeout.ms"),
        )
        for found in self._found:
            looks.note_unread(*found)
        finish(looks)


def _fetch_each(orders: Sequence[FetchOrder], storage: StorageOptions) -> list[FetchResult]:
    replicas, segments, clock = replica_store(storage), FileSegmentStore(storage), SystemClock()
    return [fetch(order, replicas, segments, clock) for order in orders]
