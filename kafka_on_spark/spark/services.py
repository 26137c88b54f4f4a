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
from kafka_on_spark.controller.commands import Draws
from kafka_on_spark.controller.recovery import ReplicaLook
from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import ReplicaAddress, TaskRunner
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.admin import CommandRunner
from kafka_on_spark.service.append_parts import AppendThreads
from kafka_on_spark.service.append_service import AppendService
from kafka_on_spark.service.appender import Appender
from kafka_on_spark.service.cleaning import Cleaner, ListOrder, ListResult, RemoveOrder
from kafka_on_spark.service.controller_loop import ControllerLoop
from kafka_on_spark.service.fetch_pace import FetchPace
from kafka_on_spark.service.grown_topics import GrownTopics
from kafka_on_spark.service.lasting_errors import LastingErrors
from kafka_on_spark.service.log_starts import plan_log_starts
from kafka_on_spark.service.making import MakeOrder, MakeResult
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.partition_looks import LookOrders
from kafka_on_spark.service.past import go_back
from kafka_on_spark.service.probes import ProbeOrder, ProbeResult
from kafka_on_spark.service.producers import ProducerRuns
from kafka_on_spark.service.recovery import LookOrder, plan_looks
from kafka_on_spark.service.rehearsed import (
    RehearsedMetadata,
)
from kafka_on_spark.service.replication import FetchOrder, FetchResult, fetch
from kafka_on_spark.service.replication_round import ReplicationRound
from kafka_on_spark.service.restoring import RestoreOrder, Restorer, RestoreResult
from kafka_on_spark.service.second_look import SecondLooks
from kafka_on_spark.service.sizes import MoveProgress, move_progress, partition_sizes
from kafka_on_spark.service.sweeping import Sweep
from kafka_on_spark.spark.findings import finish, finish_later
from kafka_on_spark.spark.opening import Awaits, open_metadata, replica_store
from kafka_on_spark.spark.probing import watch_ports
from kafka_on_spark.spark.task_runner import SparkTaskRunner, ThreadTaskRunner
from kafka_on_spark.spark.tasks import (
    fetch_task,
    list_task,
    log_start_task,
    look_task,
    make_task,
    partition_look_task,
    probe_task,
    remove_task,
    restore_task,
    size_task,
)
from kafka_on_spark.storage.clock import SystemClock
from kafka_on_spark.storage.daemon_threads import DaemonThreads
from kafka_on_spark.storage.replica_store import DeltaReplicaStore
from kafka_on_spark.storage.roots import StorageOptions
from kafka_on_spark.storage.segments import FileSegmentStore
from kafka_on_spark.storage.sweep_hint import FileSweepHints

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


DRAWS: Final = Draws(new_uuid=new_uuid, random_below=random.randrange)
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
        replicas: Open replicas of this process.
        appends: Plans appends, and commits what was staged.
        cleaner: Removes tables of replicas that are nobody's any more.
        restorer: Looks at lost replicas, so that one that is whole is taken back.
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
    replicas: DeltaReplicaStore
    runner: TaskRunner
    controller_id: str
    pace: FetchPace
    looks: SecondLooks
    sweep: Sweep
    sweep_hints: FileSweepHints
    _pools: tuple[DaemonThreads, ...]
    _maintenance: DaemonThreads
    appends: AppendService = field(init=False)
    cleaner: Cleaner = field(init=False)
    restorer: Restorer = field(init=False)

    @classmethod
    def open(
        cls,
        metadata_root: str,
        options: StorageOptions,
        spark: "SparkSession | None",
        as_of: object = None,
        awaits: Awaits = Awaits.NOTHING,
    ) -> "Services":
        """Return the services of the cluster at `metadata_root`; as it was, with `as_of`.

        Raises:
            ClusterNotFoundError: There is none.
            InvalidRequestError: `spark` is a Spark Connect session, or `as_of` names no past.
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
        if as_of is not None:
            metadata = go_back(metadata, as_of, now_ms=clock.now_ms())
        timeout_ms = metadata.image.settings().integer("delivery.timeout.ms")
        producers = ProducerRuns(metadata, timeout_ms=timeout_ms)
        replicas = replica_store(options)
        segments = FileSegmentStore(options)
        looks = SecondLooks(
            metadata,
            clock,
            may_report=as_of is None,
            run=lambda orders: list(
                fetches.map(lambda order: fetch(order, replicas, segments, clock), orders)
            ),
            lasting=LastingErrors(
                metadata,
                clock,
                run_probes=lambda orders: services._run_probes(orders),
                run_looks=lambda orders: services._run_looks(orders),
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
            looks=looks,
        )
        services = cls(
            options=options,
            clock=clock,
            producers=producers,
            metadata=metadata,
            replicas=replicas,
            runner=runner,
            controller_id=f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}",
            pace=FetchPace(clock, random=random.random),
            looks=looks,
            sweep=Sweep(clock, sweep_hints, random_below=random.randrange),
            sweep_hints=sweep_hints,
            _pools=(tasks, partitions, fetches),
            _maintenance=maintenance,
        )
        services.cleaner = Cleaner(
            metadata, clock, run_lists=services._run_lists, run_removes=services._run_removes
        )
        services.restorer = Restorer(clock, run_restores=services._run_restores)
        services.appends = AppendService(
            metadata,
            producers,
            appender,
            clock,
            replication_round=services.replication_round,
            note_findings=services.note_findings,
            grown=GrownTopics(
                metadata,
                replicas,
                segments,
                clock,
                make_replicas=lambda keys: services.replication_round().make_replicas(keys),
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
            run_looks=self._run_partition_looks,
            run_makes=self._run_makes,
            new_uuid=new_uuid,
            timeout_ms=self.timeout_ms,
            looks=self.looks,
            restorer=self.restorer,
            pace=self.pace,
            call=check_settings(configs or {}, topic_only=False),
        )

    def controller_loop(self, rehearsed: RehearsedMetadata | None = None) -> ControllerLoop:
        """Return a controllership that has not begun; `rehearsed`: that changes nothing but it."""
        return ControllerLoop(
            rehearsed or self.metadata,
            self.clock,
            controller_id=self.controller_id,
            run_probes=self._run_probes,
            run_looks=self._run_looks,
            draws=DRAWS,
            timeout_ms=self.timeout_ms,
            restorer=self.restorer if rehearsed is None else None,
            clean=self.cleaner.clean if rehearsed is None else None,
            run_commands=self._run_commands if rehearsed is None else lambda orders: [],
        )

    def commands(self) -> CommandRunner:
        """Return what runs one-shot commands."""
        return CommandRunner(
            self.metadata, self.clock, controller_id=self.controller_id, draws=DRAWS
        )

    def _run_fetches(self, orders: Sequence[FetchOrder]) -> list[FetchResult]:
        return self.runner.run(partial(fetch_task, options=self.options), orders)

    def _run_partition_looks(self, looks: Sequence[LookOrders]) -> list[list[FetchResult]]:
        return self.runner.run(partial(partition_look_task, options=self.options), looks)

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

    def _run_makes(self, orders: Sequence[MakeOrder]) -> list[MakeResult]:
        # Few tables are made faster here than a Spark job begins.
        if len(orders) <= THREADS * 4:
            return self.in_threads(partial(make_task, options=self.options), orders)
        return self.runner.run(partial(make_task, options=self.options), orders)

    def _run_probes(self, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
        return self.runner.run(partial(probe_task, options=self.options), orders)

    def _run_lists(self, orders: Sequence[ListOrder]) -> list[ListResult]:
        return self.runner.run(partial(list_task, options=self.options), orders)

    def _run_removes(self, orders: Sequence[RemoveOrder]) -> list[str | None]:
        return self.runner.run(partial(remove_task, options=self.options), orders)

    def _run_restores(self, orders: Sequence[RestoreOrder]) -> list[RestoreResult]:
        return self.runner.run(partial(restore_task, options=self.options), orders)

    def _run_looks(self, orders: Sequence[LookOrder]) -> list[ReplicaLook | None]:
        return self.runner.run(partial(look_task, options=self.options), orders)

    def partition_sizes(self, keys: Sequence[PartitionKey]) -> dict[PartitionKey, int | None]:
        """Return the bytes of one replica of each partition; None where no leader can tell."""
        return partition_sizes(self.metadata.image, keys, self._run_sizes)

    def move_progress(self) -> list[MoveProgress]:
        """Return how far the reassignments under way have come."""
        return move_progress(self.metadata.catch_up(), self._run_sizes)

    def _run_sizes(self, orders: Sequence[ReplicaAddress]) -> list[int | None]:
        return self.runner.run(partial(size_task, options=self.options), orders)

    def look_for_leaders(self, keys: Iterable[PartitionKey] | None) -> list[ReplicaLook]:
        """Return what the replicas say of the partitions that nobody in sync can lead."""
        looks = self._run_looks(plan_looks(self.metadata.catch_up(), keys))
        return [look for look in looks if look is not None]

    def advance_log_starts(self, keys: Iterable[PartitionKey]) -> None:
        """Have the replicas of partitions drop what lies below the log start of now.

        A root that does not answer does it with a later fetch.
        """
        orders = plan_log_starts(self.metadata.image, keys)
        self.runner.run(partial(log_start_task, options=self.options), orders)

    def note_findings(self, reports: Iterable[PartitionReport] = ()) -> None:
        """Take note of what is bad by a first look; the second is made after the answer."""
        self.looks.note(reports)
        finish_later(self.looks, self._maintenance)

    def maintain(self, image: MetadataImage, keys: Iterable[PartitionKey]) -> None:
        """Have checkpoints made that are due, after the answer was given and not before."""
        addresses = [
            address_of(image, key, partition, broker_id)
            for key in keys
            if (partition := image.partition(key)) is not None
            for broker_id in partition.isr
            if partition.is_made(broker_id)
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
        finish(self.looks)
        self.metadata.close()
        self._maintenance.shutdown(wait=True)
        for pool in self._pools:
            pool.shutdown(wait=True)
