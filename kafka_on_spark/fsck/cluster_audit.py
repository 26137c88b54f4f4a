"""I11: the audit of a whole cluster: metadata, roots, replicas in portions, metadata again.

This order makes the audit sound while others write: the metadata read before a table says what the
table must have, the metadata read after it what it may have. Nothing is changed.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRootError, KafkaStorageError
from kafka_on_spark.base.ids import LOST, BrokerId, PartitionKey, TopicPartition
from kafka_on_spark.fsck.findings import Coverage, Finding, FindingList, FsckReport, Place, in_order
from kafka_on_spark.fsck.metadata_audit import MetadataAudit
from kafka_on_spark.fsck.partition_checks import (
    PartitionAudit,
    borders_of,
    compare_contents,
)
from kafka_on_spark.fsck.registers import PartitionTimeline, Register
from kafka_on_spark.fsck.replica_audit import AuditOrder, audit_task
from kafka_on_spark.fsck.trace import ReplicaTrace
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.node.node import THREADS, Tasks
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.root_identity import check_directory
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.storage_options import StorageOptions

NOT_DEEP: Final = (
    "the bytes of segments, and so their digests, the borders and the records of merged ones, what"
    " compacted ones keep, and whether replicas hold the same (I1, I15, I25 and I27 in part)",
    "all checkpoints and snapshots but the newest (I15 in part)",
)
PARTITIONS_AT_ONCE: Final = 100
"""The traces of so many partitions' replicas are in memory together."""


class Fsck:
    """One check of a cluster. `url`: some of its metadata roots."""

    def __init__(self, url: str, tasks: Tasks, *, is_deep: bool) -> None:
        self._tasks = tasks
        self._is_deep = is_deep
        self._metadata = MetadataAudit(url, tasks.worker.options, is_deep=is_deep)
        self._replay = self._metadata.replay
        self._findings: list[Finding] = []
        self._coverage: list[Coverage] = []
        self._not_checked: list[str] = [] if is_deep else list(NOT_DEEP)

    def run(self) -> FsckReport:
        """Check everything; return what was found. Raises ClusterNotFoundError, or
        KafkaStorageError: no metadata root answers, or a leader of the quorum was elected
        meanwhile."""
        self._metadata.catch_up()
        absent, timelines = self._absent(), self._replay.timelines
        keys = sorted(timelines, key=lambda each: (timelines[each].name, each))
        for first in range(0, len(keys), PARTITIONS_AT_ONCE):
            self._check(keys[first : first + PARTITIONS_AT_ONCE], absent)
        self._metadata.catch_up()
        self._findings.extend(self._metadata.finish(self._tasks.worker.clock.now_ms()))
        return FsckReport(
            findings=in_order(self._findings),
            coverage=(*self._metadata.coverage(), *self._coverage),
            is_deep=self._is_deep,
            not_checked=(*self._not_checked, *self._metadata.not_checked()),
        )

    def _absent(self) -> frozenset[BrokerId]:
        absent = set()
        for broker in self._replay.image.brokers.values():
            try:
                check_directory(broker.root, broker.directory_id, self._tasks.worker.options)
            except (KafkaStorageError, InvalidRootError) as error:
                absent.add(broker.broker_id)
                sentence = f"the broker's replicas could not be checked: {error}"
                place = Place(broker_id=broker.broker_id)
                self._findings.append(Finding(invariant=None, place=place, sentence=sentence))
        return frozenset(absent)

    def _check(self, keys: Sequence[PartitionKey], absent: frozenset[BrokerId]) -> None:
        timelines = [self._replay.timelines[key].copy() for key in keys]
        orders = [
            order
            for timeline in timelines
            if timeline.register is not None
            for order in self._orders(timeline, timeline.register, absent)
        ]
        found: dict[PartitionKey, list[ReplicaTrace]] = defaultdict(list)
        for order, trace in zip(orders, self._tasks.run(audit_task, orders), strict=True):
            found[order.address.key].append(trace)
        self._metadata.catch_up()
        for before in timelines:
            after = self._replay.timelines[before.key].copy()
            register = after.register
            if before.register is None or register is None:
                continue
            # Those that are assigned still: findings of a lost one do not count.
            members = register.members(filter(register.is_created, register.replicas))
            traces = [trace for trace in found[before.key] if trace.member in members]
            self._compare(before, before.register, after, traces)

    def _orders(
        self, timeline: PartitionTimeline, register: Register, absent: frozenset[BrokerId]
    ) -> Iterator[AuditOrder]:
        brokers = self._replay.image.brokers
        for broker_id in dict.fromkeys(register.replicas):
            directory_id, uuid = register.directory_of(broker_id), register.uuid_of(broker_id)
            is_there = broker_id in brokers and broker_id not in absent
            if not is_there or directory_id in (None, LOST) or uuid is None:
                continue  # not created, or an invalid registration, which has a finding
            address = ReplicaAddress(
                root=brokers[broker_id].root,
                topic=timeline.name.topic,
                key=timeline.key,
                broker_id=broker_id,
                directory_id=directory_id,
                replica_uuid=uuid,
            )
            yield AuditOrder(
                address=address,
                is_in_sync=broker_id in register.isr,
                is_deep=self._is_deep,
                borders=borders_of(register),
                expired_epochs=self._replay.came_back(),
            )

    def _compare(
        self,
        before: PartitionTimeline,
        register: Register,
        after: PartitionTimeline,
        traces: Sequence[ReplicaTrace],
    ) -> None:
        """Compare replicas that were read after `before`, with `register`, and before `after`."""
        name = after.name
        for trace in traces:
            self._findings.extend(trace.findings)
            self._check_forgotten(name, trace)
            self._coverage.append(
                Coverage(
                    table=Place(partition=name, broker_id=trace.broker_id),
                    first_version=trace.first_version,
                    last_version=trace.last_version,
                    read_files=trace.read_files,
                    read_bytes=trace.read_bytes,
                )
            )
        read = [trace for trace in traces if trace.is_read]
        is_whole = len(read) == sum(map(register.is_created, register.replicas))
        findings = FindingList(Place(partition=name))
        self._findings.extend(PartitionAudit(before, after, read, is_whole=is_whole).run())
        not_compared = compare_contents(read, register, findings)
        self._not_checked.extend(f"of {name}, {sentence}" for sentence in not_compared)
        self._findings.extend(findings.all())

    def _check_forgotten(self, name: TopicPartition, trace: ReplicaTrace) -> None:
        """A producer may be dropped only once its id has expired: with an epoch that is not below
        those of its appends, whether it came back since or not."""
        findings = FindingList(Place(partition=name, broker_id=trace.broker_id))
        for producer_id, producer_epoch in trace.forgotten_producers:
            expired = max(self._replay.expired_epochs.get(producer_id, ()), default=-1)
            if producer_id in self._replay.image.producers and producer_epoch > expired:
                sentence = f"the producer state lacks producer {producer_id!r}, whose appends went"
                findings.add("I11", sentence, version=trace.last_version)
        self._findings.extend(findings.all())


def check_cluster(
    metadata_root: str | os.PathLike[str],
    *,
    deep: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> FsckReport:
    """Check a cluster without opening it, which replays its metadata: one that can't be opened is
    checked, too. Tasks run in threads. Raises as `Fsck.run`, and InvalidRootError if
    `metadata_root` is not the URL of a root."""
    options, root = StorageOptions(storage_options), cluster_url(metadata_root)
    with DaemonThreads(THREADS, "fsck") as threads:
        return Fsck(root, Tasks(Worker(options), threads), is_deep=deep).run()
