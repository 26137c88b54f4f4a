"""I11: the audit of a whole cluster: metadata, roots, replicas in portions, metadata again.

This order makes the audit sound while others write: the metadata read before a table says what the
table must have, the metadata read after it what it may have. Nothing is changed.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.base.errors import (
    CorruptLogError,
    InvalidRootError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import BrokerId, Offset, PartitionKey, TopicPartition
from kafka_on_spark.base.process import Clock
from kafka_on_spark.fsck.findings import Coverage, Finding, FindingList, FsckReport, Place, in_order
from kafka_on_spark.fsck.metadata_archive import MetadataArchive, metadata_archives
from kafka_on_spark.fsck.metadata_checks import (
    MetadataReplay,
    MetadataRows,
    snapshot_flaw,
)
from kafka_on_spark.fsck.partition_checks import (
    PartitionAudit,
    borders_of,
    compare_contents,
)
from kafka_on_spark.fsck.registers import PartitionTimeline, Register
from kafka_on_spark.fsck.replica_audit import AuditOrder, audit_task
from kafka_on_spark.fsck.trace import ReplicaTrace
from kafka_on_spark.fsck.voter_audit import VoterAudit, VoterReader
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.quorum.voter_table import Voter
from kafka_on_spark.node.node import THREADS, Tasks
from kafka_on_spark.spark.spark_executors import SparkExecutors
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.delta.delta_files import FileEntry
from kafka_on_spark.store.root_identity import check_directory
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.storage_options import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunAudits = Callable[[Sequence[AuditOrder]], list[ReplicaTrace]]

_Snapshots = dict[int, list[tuple[VoterReader, str]]]
"""Names of snapshots, and on whose root they lie, by where they end."""

NOT_DEEP: Final = (
    "the bytes of segments, and so their digests, the borders and the records of merged ones, what"
    " compacted ones keep, and whether replicas hold the same (I1, I15, I25 and I27 in part)",
    "all checkpoints and snapshots but the newest (I15 in part)",
)
"""What only a deep check looks at."""

REPLICAS_AT_ONCE: Final = 256
"""About how many replicas' traces are in memory together: those of whole partitions."""


class _MetadataReader:
    """Replays the metadata log, as far as a majority of its voters holds it, and checks their
    snapshots."""

    def __init__(
        self, archives: Sequence[MetadataArchive], unread: Mapping[Voter, str], *, is_deep: bool
    ) -> None:
        self.replay = MetadataReplay()
        self.voters = VoterAudit(archives, unread, self.replay.findings, is_deep=is_deep)
        self._main = self.voters.main
        self._read_files: set[str] = set()
        self._is_first = True

    def catch_up(self) -> None:
        """Replay the commits since the last call.

        Raises:
            ClusterNotFoundError, CorruptLogError, KafkaStorageError: The log can't be read at all.
        """
        # Listed first: a snapshot is made of what is committed.
        snapshots = self._snapshots() if self._is_first else {}
        self._is_first = False
        committed_end = self.voters.catch_up()
        taken = {*self._read_files}
        while (file := self._main.table.first_but(taken)) is not None:
            taken.add(file.path)
            self._take(file, snapshots, committed_end)
        if not self.replay.is_begun:
            self._begin()
        if not self.replay.is_begun:
            self.replay.damage(
                "the oldest records of the log are expired, and no snapshot after them can be read"
            )
        for end, found in snapshots.items():
            # It is of a cluster that was at this root before, or the log was rolled back.
            above = "it ends above the log's end, and no process reads it"
            within = "it ends where no commit of the log ends"
            for reader, name in found:
                reader.add_snapshot_flaw(name, above if end > self.replay.end_offset else within)

    def _take(self, file: FileEntry, snapshots: _Snapshots, committed_end: int) -> None:
        """Replay a file's batches up to an offset; those beyond are taken another time."""
        try:
            for batch in self._main.rows(file, committed_end):
                if batch.end_offset > committed_end:
                    return
                if batch.end_offset <= self.replay.end_offset:
                    continue  # seen before the file was merged
                if not self._may_take(batch):
                    snapshots.pop(batch.end_offset, ())
                    continue
                self.replay.take(batch)
                for reader, name in snapshots.pop(self.replay.end_offset, ()):
                    self._check_snapshot(reader, name)
        except CorruptLogError as error:
            # Its rows may be in another file by now.
            if file not in self._main.table.files or not self._main.has_replaced(file):
                self._read_files.add(file.path)
                self.replay.damage(error.message, path=file.path)
            return
        self._read_files.add(file.path)

    def _may_take(self, batch: MetadataRows) -> bool:
        """Return whether the replay has begun before a commit: where the oldest records are gone,
        it begins with the first snapshot after them that can be read."""
        if batch.is_expired:
            self.replay.pass_over(batch)
            return False
        if not self.replay.is_begun:
            self._begin()
        if not self.replay.is_begun:
            self.replay.pass_over(batch)
        return self.replay.is_begun

    def _begin(self) -> None:
        """Begin the replay with a snapshot that ends where it has come to, if there is one."""
        for reader in (self._main, *self.voters.others):
            for name in reader.archive.snapshot_names():
                if name.startswith(f"{self.replay.end_offset:020d}-"):
                    try:
                        self.replay.begin_at(reader.archive.snapshot(name))
                    except CorruptLogError as error:
                        reader.add_snapshot_flaw(name, error.message)
                    else:
                        return

    def _snapshots(self) -> _Snapshots:
        """Return the snapshots on the voters' roots by where they end."""
        ends: _Snapshots = {}
        for reader in (self._main, *self.voters.others):
            for end, name in reader.snapshots():
                ends.setdefault(end, []).append((reader, name))
        return ends

    def _name_flaw(self, name: str) -> str | None:
        """Return, in a sentence, which other epoch a snapshot's name says than the log has."""
        epoch = self._main.trace.log.epoch_before(Offset(self.replay.end_offset))
        said = name.removesuffix(".parquet").rpartition("-")[2]
        if said.isdecimal() and int(said) == epoch:
            return None
        return f"its name says epoch {said}, the log has epoch {epoch} there"

    def _check_snapshot(self, reader: VoterReader, name: str) -> None:
        try:
            flaw = self._name_flaw(name) or snapshot_flaw(
                self.replay, reader.archive.snapshot(name).rows
            )
        except CorruptLogError as error:
            flaw = error.message
        if flaw is not None:
            reader.add_snapshot_flaw(name, flaw)


class Fsck:
    """One check of a cluster. `url`: some of its metadata roots."""

    def __init__(
        self,
        url: str,
        options: StorageOptions,
        run_audits: RunAudits,
        clock: Clock,
        *,
        is_deep: bool,
    ) -> None:
        archives, unread = metadata_archives(url, options)
        self._options = options
        self._run_audits = run_audits
        self._clock = clock
        self._is_deep = is_deep
        self._metadata = _MetadataReader(archives, unread, is_deep=is_deep)
        self._replay = self._metadata.replay
        self._findings: list[Finding] = []
        self._coverage: list[Coverage] = []
        self._not_checked: list[str] = [] if is_deep else list(NOT_DEEP)

    def run(self) -> FsckReport:
        """Check everything; return what was found.

        Raises:
            ClusterNotFoundError: There is no cluster.
            KafkaStorageError: No metadata root answers, or a leader of the quorum was elected while
                it was checked.
        """
        self._metadata.catch_up()
        absent = self._absent()
        for portion in self._portions():
            self._check(portion, absent)
        self._metadata.catch_up()
        voters = self._metadata.voters
        voters.check_leader()
        self._findings.extend(voters.findings())
        self._replay.check_time(self._clock.now_ms())
        self._findings.extend(self._replay.findings.all())
        return FsckReport(
            findings=in_order(self._findings),
            coverage=(*voters.coverage(), *self._coverage),
            is_deep=self._is_deep,
            not_checked=(
                *self._not_checked,
                *voters.not_checked(),
                *self._replay.not_checked(),
            ),
        )

    def _absent(self) -> frozenset[BrokerId]:
        absent = set()
        for broker in self._replay.image.brokers.values():
            try:
                check_directory(broker.root, broker.directory_id, self._options)
            except (KafkaStorageError, InvalidRootError) as error:
                absent.add(broker.broker_id)
                sentence = f"the broker's replicas could not be checked: {error}"
                self._miss(Place(broker_id=broker.broker_id), sentence)
        return frozenset(absent)

    def _miss(self, place: Place, sentence: str) -> None:
        self._findings.append(Finding(invariant=None, place=place, sentence=sentence))

    def _portions(self) -> Iterator[list[PartitionKey]]:
        """Yield the partitions, some hundred replicas at a time."""
        portion: list[PartitionKey] = []
        count = 0
        timelines = self._replay.timelines
        for key in sorted(timelines, key=lambda each: (timelines[each].name, each)):
            register = self._replay.register(key)
            if register is None:
                continue
            portion.append(key)
            count += len(register.replicas)
            if count >= REPLICAS_AT_ONCE:
                yield portion
                portion, count = [], 0
        if portion:
            yield portion

    def _check(self, keys: Sequence[PartitionKey], absent: frozenset[BrokerId]) -> None:
        timelines = [self._replay.timelines[key].copy() for key in keys]
        orders = [
            order
            for timeline in timelines
            if timeline.register is not None
            for order in self._orders(timeline, timeline.register, absent)
        ]
        found: dict[PartitionKey, list[tuple[ReplicaAddress, ReplicaTrace]]] = defaultdict(list)
        for order, trace in zip(orders, self._run_audits(orders), strict=True):
            found[order.address.key].append((order.address, trace))
        self._metadata.catch_up()
        for before in timelines:
            after = self._replay.timelines[before.key].copy()
            register = after.register
            if before.register is None or register is None:
                continue
            traces = [
                trace
                for address, trace in found[before.key]
                # Still the assigned one: findings of a lost one do not count.
                if register.uuid_of(address.broker_id) == address.replica_uuid
                and register.is_created(address.broker_id)
            ]
            self._compare(before, before.register, after, traces)

    def _orders(
        self, timeline: PartitionTimeline, register: Register, absent: frozenset[BrokerId]
    ) -> Iterator[AuditOrder]:
        brokers = self._replay.image.brokers
        for broker_id in dict.fromkeys(register.replicas):
            directory_id = register.directory_of(broker_id)
            uuid = register.uuid_of(broker_id)
            is_there = broker_id in brokers and broker_id not in absent
            if not is_there or not register.is_created(broker_id):
                continue
            if directory_id is None or uuid is None:
                continue  # an invalid registration, which has a finding
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
        try:
            self._findings.extend(PartitionAudit(before, after, read, is_whole=is_whole).run())
            not_compared = compare_contents(read, register, findings)
            self._not_checked.extend(f"of {name}, {sentence}" for sentence in not_compared)
            self._findings.extend(findings.all())
        except KafkaOnSparkError as error:
            self._miss(Place(partition=name), f"the replicas could not be compared: {error}")

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


def check_tables(metadata_root: str, tasks: Tasks, *, is_deep: bool) -> FsckReport:
    """Check the cluster at `metadata_root` (normalized).

    Raises:
        ClusterNotFoundError: There is no cluster.
        KafkaStorageError: The metadata root does not answer.
    """
    worker = tasks.worker
    run_audits = partial(tasks.run, audit_task)
    return Fsck(metadata_root, worker.options, run_audits, worker.clock, is_deep=is_deep).run()


def check_cluster(
    metadata_root: str | os.PathLike[str],
    spark: "SparkSession | None" = None,
    *,
    deep: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> FsckReport:
    """Check a cluster without opening it, which replays its metadata: one that can't be opened is
    checked, too. Tasks run on `spark`, or in threads without.

    Raises:
        ClusterNotFoundError: There is no cluster.
        KafkaStorageError: The metadata root does not answer.
        InvalidRootError: `metadata_root` is not the URL of a root.
        InvalidRequestError: `spark` is a Spark Connect session.
    """
    options, root = StorageOptions(storage_options), cluster_url(metadata_root)
    executors = None if spark is None else SparkExecutors(spark, options)
    with DaemonThreads(THREADS, "fsck") as threads:
        return check_tables(root, Tasks(Worker(options), threads, executors), is_deep=deep)
