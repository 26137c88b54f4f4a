"""One process's services, wired to Delta tables, files and a task runner.

The only place that knows which adapter stands behind which port.
"""

import logging
import os
import random
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import uuid4

from kafka_on_spark.config import check_settings
from kafka_on_spark.controller.commands.commands import Command, IdSource
from kafka_on_spark.controller.partitions.reports import PartitionReport, ReplicaInspection
from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import ReplicaAddress, TaskRunner
from kafka_on_spark.query.reads.read_order import ReadOrder, plan_reads
from kafka_on_spark.service.append.append_service import AppendService
from kafka_on_spark.service.append.appender import Appender, AppendThreads
from kafka_on_spark.service.append.plan.expanded_topics import ExpandedTopics
from kafka_on_spark.service.append.producers import ProducerRuns
from kafka_on_spark.service.control.controller_loop import ControllerLoop
from kafka_on_spark.service.control.inspecting_leaderless import InspectionOrder, plan_inspections
from kafka_on_spark.service.control.one_shot_commands import CommandRunner
from kafka_on_spark.service.control.probes import ProbeOrder, ProbeResult
from kafka_on_spark.service.control.removing_replicas import (
    Cleaner,
    ListOrder,
    ListResult,
    RemoveOrder,
)
from kafka_on_spark.service.describe.sizes import MoveProgress, move_progress, partition_sizes
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.service.replica.creating_replicas import CreateReplicaOrder, CreateReplicaResult
from kafka_on_spark.service.replica.log_starts import plan_log_starts
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.replicate.fetching.fetch_pace import FetchPace
from kafka_on_spark.service.replicate.inspecting_lost import (
    InspectLostOrder,
    InspectLostResult,
    LostReplicaInspector,
)
from kafka_on_spark.service.replicate.lasting_errors import LastingErrors
from kafka_on_spark.service.replicate.partition_inspection import PartitionFetches
from kafka_on_spark.service.replicate.replication_round import ReplicationRound
from kafka_on_spark.service.replicate.second_inspection import SecondInspections
from kafka_on_spark.service.replicate.sweep_progress import SweepProgress
from kafka_on_spark.service.what_if.dry_run import DryRunMetadata
from kafka_on_spark.spark.run.opening import Awaits, open_metadata, replica_store
from kafka_on_spark.spark.run.task_runner import SparkTaskRunner, ThreadTaskRunner
from kafka_on_spark.spark.run.tasks import (
    create_replica_task,
    fetch_task,
    inspect_lost_task,
    inspect_partition_task,
    list_task,
    log_start_task,
    look_task,
    probe_task,
    remove_task,
    size_task,
)
from kafka_on_spark.spark.wiring.probing import watch_ports
from kafka_on_spark.spark.wiring.second_inspections import finish, finish_later
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads
from kafka_on_spark.storage.metadata.sweep_hint import FileSweepHints
from kafka_on_spark.storage.replicas.replica_store import DeltaReplicaStore
from kafka_on_spark.storage.replicas.segments import FileSegmentStore
from kafka_on_spark.storage.roots.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

T = TypeVar("T")
Order = TypeVar("Order")

THREADS: Final = 8
"""Threads a pool: commits wait for disks and stores, not for the processor."""


def new_uuid() -> str:
    """Return a new id: 32 hexadecimal digits."""
    return uuid4().hex


ID_SOURCE: Final = IdSource(new_uuid=new_uuid, random_below=random.randrange)
"""What this process's decisions make up."""


def run_later(threads: Executor, work: Callable[[], None]) -> None:
    """Have `work` done after the answer was given; what it would do saves time only."""

    def run() -> None:
        try:
            work()
        except Exception:  # in a thread that nobody asks: unsaid, it would be lost
            log.warning("maintenance failed", exc_info=True)

    try:
        threads.submit(run)
    except KafkaOnSparkError as error:  # it was closed, or has no more threads
        log.debug("no maintenance: %s", error)


@dataclass(slots=True, kw_only=True)
class Services:
    """What a Cluster is thin over.

    Attributes:
        options: Credentials of all roots.
        clock: The system's.
        producers: Runs of producers that this process has begun.
        metadata: The image, and commits to it.
        spark: The session that tasks run on and that scans views; None: there is none.
        replicas: Open replicas of this process.
        appends: Plans appends, and commits what was staged.
        cleaner: Removes tables of replicas that are nobody's any more.
        lost_inspector: Looks at lost replicas, so that one that is whole is taken back.
        runner: Where tasks run.
        controller_id: A name for this process that no other has.
        pace: Back-offs and throttles of this process's rounds.
        looks: What this process has found bad once, and looks at again.
        sweep: Which partitions this process's rounds have looked at.
        sweep_hints: Where it leaves that for other processes.
    """

    options: StorageOptions
    clock: SystemClock
    producers: ProducerRuns
    metadata: MetadataService
    spark: "SparkSession | None"
    replicas: DeltaReplicaStore
    runner: TaskRunner
    controller_id: str
    pace: FetchPace
    second_inspections: SecondInspections
    sweep: SweepProgress
    sweep_hints: FileSweepHints
    _pools: tuple[DaemonThreads, ...]
    _maintenance: DaemonThreads
    appends: AppendService = field(init=False)
    cleaner: Cleaner = field(init=False)
    lost_inspector: LostReplicaInspector = field(init=False)

    @classmethod
    def open(
        cls,
        metadata_root: str,
        options: StorageOptions,
        spark: "SparkSession | None",
        awaits: Awaits = Awaits.NOTHING,
    ) -> "Services":
        """Return the services of the cluster at `metadata_root`.

        Raises:
            ClusterNotFoundError: There is none.
            InvalidRequestError: `spark` is a Spark Connect session.
        """
        tasks = DaemonThreads(THREADS, "task")
        partitions = DaemonThreads(THREADS, "partition")
        fetches = DaemonThreads(THREADS, "fetch")
        runner = ThreadTaskRunner(tasks) if spark is None else SparkTaskRunner(spark)
        maintenance = DaemonThreads(1, "maintenance")
        metadata = open_metadata(
            metadata_root,
            options,
            application_id=None if spark is None else spark.sparkContext.applicationId,
            after_commit=lambda: run_later(maintenance, metadata.maintain),
            awaits=awaits,
        )
        clock = SystemClock()
        timeout_ms = metadata.image.settings().integer("delivery.timeout.ms")
        producers = ProducerRuns(metadata, timeout_ms=timeout_ms)
        replicas = replica_store(options)
        segments = FileSegmentStore(options)
        second_inspections = SecondInspections(
            metadata,
            clock,
            run=lambda orders: list(
                fetches.map(lambda order: fetch(order, replicas, segments, clock), orders)
            ),
            lasting=LastingErrors(
                metadata,
                clock,
                run_probes=lambda orders: services._run_probes(orders),
                run_inspections=lambda orders: services._run_inspections(orders),
                timeout_ms=timeout_ms,
            ),
            timeout_ms=timeout_ms,
        )
        sweep_hints = FileSweepHints(metadata_root, options)
        appender = Appender(
            metadata,
            replicas,
            segments,
            clock,
            threads=AppendThreads(partitions, fetches),
            random=random.random,
            second_inspections=second_inspections,
        )
        services = cls(
            options=options,
            clock=clock,
            producers=producers,
            metadata=metadata,
            spark=spark,
            replicas=replicas,
            runner=runner,
            controller_id=f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}",
            pace=FetchPace(clock, random=random.random),
            second_inspections=second_inspections,
            sweep=SweepProgress(clock, sweep_hints, random_below=random.randrange),
            sweep_hints=sweep_hints,
            _pools=(tasks, partitions, fetches),
            _maintenance=maintenance,
        )
        services.cleaner = Cleaner(
            metadata, clock, run_lists=services._run_lists, run_removes=services._run_removes
        )
        services.lost_inspector = LostReplicaInspector(
            clock, run_lost_inspections=services._run_lost_inspections
        )
        services.appends = AppendService(
            metadata,
            producers,
            appender,
            clock,
            replication_round=services.replication_round,
            note_findings=services.note_findings,
            expanded=ExpandedTopics(
                metadata,
                replicas,
                segments,
                clock,
                create_replicas=lambda keys: services.replication_round().create_replicas(keys),
                threads=partitions,
            ),
            maintain=services.maintain,
            watch_ports=watch_ports(services, tasks),
        )
        return services

    @property
    def timeout_ms(self) -> int:
        """How long an append or a command may take. Source: delivery.timeout.ms."""
        return self.metadata.image.settings().integer("delivery.timeout.ms")

    def replication_round(self, configs: Mapping[str, object] | None = None) -> ReplicationRound:
        """Return what plans and concludes rounds; `configs`: settings that win over all others.

        Raises:
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        return ReplicationRound(
            self.metadata,
            self.clock,
            sweep=self.sweep,
            run_fetches=self._run_fetches,
            run_inspections=self._run_partition_inspections,
            run_creations=self._run_creations,
            new_uuid=new_uuid,
            timeout_ms=self.timeout_ms,
            second_inspections=self.second_inspections,
            lost_inspector=self.lost_inspector,
            pace=self.pace,
            overrides=check_settings(configs or {}, topic_only=False),
        )

    def controller_loop(self, dry_run: DryRunMetadata | None = None) -> ControllerLoop:
        """Return a controllership that has not begun; with `dry_run` it changes nothing else."""
        return ControllerLoop(
            dry_run or self.metadata,
            self.clock,
            controller_id=self.controller_id,
            run_probes=self._run_probes,
            run_inspections=self._run_inspections,
            id_source=ID_SOURCE,
            timeout_ms=self.timeout_ms,
            lost_inspector=self.lost_inspector if dry_run is None else None,
            clean=self.cleaner.clean if dry_run is None else None,
            run_commands=self._run_commands if dry_run is None else lambda orders: [],
        )

    @property
    def table(self) -> str:
        """URL of the metadata log, a Delta table."""
        return self.metadata.table

    def run_command(self, command: Command[T], **arguments: object) -> T:
        """Have a command decided and committed, here or by the controller of the cluster.

        Raises: as `CommandRunner.run`.
        """
        return self.commands().run(command.order(**arguments), timeout_ms=self.timeout_ms)

    def plan_reads(
        self, topic: str, start: Mapping[int, int] | None, end: Mapping[int, int] | None
    ) -> list[ReadOrder]:
        """Return one order a partition that has committed records between `start` and `end`.

        Raises: as `plan_reads`.
        """
        return plan_reads(self.metadata.catch_up(), topic, start, end)

    def note_unread(
        self, address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
    ) -> None:
        """Take note of a replica that a read could not read."""
        self.second_inspections.record_unread(address, segment, error)

    def commands(self) -> CommandRunner:
        """Return what runs one-shot commands."""
        return CommandRunner(
            self.metadata, self.clock, controller_id=self.controller_id, id_source=ID_SOURCE
        )

    def _run_fetches(self, orders: Sequence[FetchOrder]) -> list[FetchResult]:
        return self.runner.run(partial(fetch_task, options=self.options), orders)

    def _run_partition_inspections(
        self, looks: Sequence[PartitionFetches]
    ) -> list[list[FetchResult]]:
        return self.runner.run(partial(inspect_partition_task, options=self.options), looks)

    def _run_commands(self, orders: Sequence[FetchOrder]) -> list[FetchResult]:
        """Send commands to tables.

        Raises:
            KafkaStorageError: Spark has given the job up: they are lost, and no more than that.
        """
        try:
            results = self._run_fetches(orders)
            self.note_findings(result.report for result in results)
            return results
        except KafkaOnSparkError:
            raise
        except Exception as error:  # whatever Spark calls the loss of an executor
            raise KafkaStorageError(f"the executors did not do them: {error}") from error

    def in_threads(self, work: Callable[[Order], T], orders: Sequence[Order]) -> list[T]:
        """Return what `work` makes of each order, in threads of this process."""
        return list(self._pools[0].map(work, orders))

    def _run_creations(self, orders: Sequence[CreateReplicaOrder]) -> list[CreateReplicaResult]:
        # Few tables are made faster here than a Spark job begins.
        if len(orders) <= THREADS * 4:
            return self.in_threads(partial(create_replica_task, options=self.options), orders)
        return self.runner.run(partial(create_replica_task, options=self.options), orders)

    def _run_probes(self, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
        return self.runner.run(partial(probe_task, options=self.options), orders)

    def _run_lists(self, orders: Sequence[ListOrder]) -> list[ListResult]:
        return self.runner.run(partial(list_task, options=self.options), orders)

    def _run_removes(self, orders: Sequence[RemoveOrder]) -> list[str | None]:
        return self.runner.run(partial(remove_task, options=self.options), orders)

    def _run_lost_inspections(self, orders: Sequence[InspectLostOrder]) -> list[InspectLostResult]:
        return self.runner.run(partial(inspect_lost_task, options=self.options), orders)

    def _run_inspections(self, orders: Sequence[InspectionOrder]) -> list[ReplicaInspection | None]:
        return self.runner.run(partial(look_task, options=self.options), orders)

    def partition_sizes(self, keys: Sequence[PartitionKey]) -> dict[PartitionKey, int | None]:
        """Return the bytes of one replica of each partition; None where no leader can tell."""
        return partition_sizes(self.metadata.image, keys, self._run_sizes)

    def move_progress(self) -> list[MoveProgress]:
        """Return how far the reassignments under way have come."""
        return move_progress(self.metadata.catch_up(), self._run_sizes)

    def _run_sizes(self, orders: Sequence[ReplicaAddress]) -> list[int | None]:
        return self.runner.run(partial(size_task, options=self.options), orders)

    def look_for_leaders(self, keys: Iterable[PartitionKey] | None) -> list[ReplicaInspection]:
        """Return what the replicas say of the partitions that nobody in sync can lead."""
        looks = self._run_inspections(plan_inspections(self.metadata.catch_up(), keys))
        return [look for look in looks if look is not None]

    def advance_log_starts(self, keys: Iterable[PartitionKey]) -> None:
        """Have the replicas of partitions drop what lies below the log start of now.

        A root that does not answer does it with a later fetch.
        """
        orders = plan_log_starts(self.metadata.image, keys)
        self.runner.run(partial(log_start_task, options=self.options), orders)

    def note_findings(self, reports: Iterable[PartitionReport] = ()) -> None:
        """Take note of what is bad by a first look; the second is made after the answer."""
        self.second_inspections.record(reports)
        finish_later(self.second_inspections, self._maintenance)

    def maintain(self, image: MetadataImage, keys: Iterable[PartitionKey]) -> None:
        """Have checkpoints made that are due, after the answer was given and not before."""
        addresses = [
            address_of(image, key, partition, broker_id)
            for key in keys
            if (partition := image.partition(key)) is not None
            for broker_id in partition.isr
            if partition.is_created(broker_id)
        ]
        run_later(self._maintenance, partial(self._maintain, addresses))

    def _maintain(self, addresses: Sequence[ReplicaAddress]) -> None:
        for address in addresses:
            self.replicas.open(address).maintain()

    def finish_maintenance(self) -> None:
        """Wait until what is due so far was done."""
        self._maintenance.submit(lambda: None).result()

    def close(self) -> None:
        """Finish what is due and let the threads go; refuse what is asked for afterwards."""
        finish(self.second_inspections)
        self.metadata.close()
        self._maintenance.shutdown(wait=True)
        for pool in self._pools:
            pool.shutdown(wait=True)
