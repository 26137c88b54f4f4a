"""One process's services, wired to Delta tables, files and a task runner.

The only place that knows which adapter stands behind which port. What only some processes need is
imported and made once it is asked for: one that reads needs nothing of what appends.
"""

import logging
import os
import random
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property, partial, wraps
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from kafka_on_spark.base.errors import ClusterNotFoundError, KafkaOnSparkError
from kafka_on_spark.base.ids import PartitionKey, ReplicaUuid
from kafka_on_spark.base.process import Clock, TaskRunner
from kafka_on_spark.groups.heartbeat_files import HeartbeatFiles
from kafka_on_spark.metadata.hint_file import HintRoots
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.node.due_work import DueWork
from kafka_on_spark.node.opening import Awaits, metadata_log_of, open_metadata, replica_store
from kafka_on_spark.node.task_runner import SparkTaskRunner, ThreadTaskRunner
from kafka_on_spark.observe.counts import BEGUN, CountedMetadata, Counts
from kafka_on_spark.store.accounts import CHECKPOINT, OPEN, charged
from kafka_on_spark.store.clock import ID_SOURCE, SystemClock, new_uuid
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.requests import operating
from kafka_on_spark.store.root_identity import check_obeys_once
from kafka_on_spark.store.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_on_spark.controller.commands import Command
    from kafka_on_spark.controller.creating_replicas import CreateReplicaResult
    from kafka_on_spark.controller.keeping import Keeping
    from kafka_on_spark.controller.one_shot_commands import CommandRunner
    from kafka_on_spark.controller.second_inspection import Finding, SecondInspections
    from kafka_on_spark.log.addresses import ReplicaAddress
    from kafka_on_spark.log.batch import Segment
    from kafka_on_spark.log.read_order import ReadOrder
    from kafka_on_spark.log.replicas import ReplicaStore
    from kafka_on_spark.metadata.reports import (
        PartitionReport,
    )
    from kafka_on_spark.node.task_calls import TaskCalls
    from kafka_on_spark.produce.append import AppendService
    from kafka_on_spark.produce.appender import AppendThreads
    from kafka_on_spark.produce.idempotence import ProducerRuns

log = logging.getLogger(__name__)

T = TypeVar("T")

THREADS: Final = 8
"""Threads of a pool: commits wait for disks and stores, not for the processor."""

_MAKING: Final = RLock()
"""One for all parts of this process: a part may make another one."""


def made_once(make: Callable[[Any], T]) -> cached_property[T]:
    """Return a property that is made once somebody asks: the first thread makes it, for all. A
    `cached_property` has a lock of its own in Python 3.11, and none later."""
    name = make.__name__

    @wraps(make)
    def made(owner: Any) -> T:
        parts = vars(owner)
        if name not in parts:
            with _MAKING:
                parts[name] = parts[name] if name in parts else make(owner)
        found: T = parts[name]
        return found

    return cast("cached_property[T]", property(made))


class Services:
    """The services of one open cluster, which the parts of a `Cluster` call.

    Attributes:
        options: Credentials of all roots.
        clock: Says the time of what this process commits and appends.
        metadata: The image, and commits to it.
        spark: The session that tasks run on and that scans views; None: there is none.
        runner: Where tasks run.
        controller_id: A name for this process that no other process has.
        hint_roots: Where hints for other processes lie.
        heartbeats: Heartbeats of groups' members.
        counts: What it has counted and timed.
    """

    def __init__(
        self,
        metadata_root: str,
        options: StorageOptions,
        spark: "SparkSession | None",
        awaits: Awaits,
    ) -> None:
        self.options = options
        self.spark = spark
        self.counts = Counts(SystemClock().precise_ms, BEGUN)
        self.controller_id = f"{socket.gethostname()}-{os.getpid()}-{new_uuid()[:8]}"
        self._task_threads = DaemonThreads(THREADS, "task")
        self._fetches = DaemonThreads(THREADS, "fetch")
        self._maintenance = DaemonThreads(1, "maintenance")
        self._due = DueWork(self._maintenance)
        self.runner: TaskRunner = (
            ThreadTaskRunner(self._task_threads) if spark is None else SparkTaskRunner(spark)
        )
        self.metadata = open_metadata(
            metadata_root,
            options,
            application_id=None if spark is None else spark.sparkContext.applicationId,
            after_commit=lambda: self._due.add(
                {self.metadata: charged(self.metadata.maintain, CHECKPOINT)}
            ),
            awaits=awaits,
            watch=CountedMetadata(self.counts),
        )
        self.clock: Clock = self.metadata.clock
        self.hint_roots = HintRoots(metadata_log_of(self.metadata).roots, options)
        self.heartbeats = HeartbeatFiles(self.hint_roots)

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
        check_obeys_once.cache_clear()  # the roots may be a copy's
        with operating(OPEN):
            return cls(metadata_root, options, spark, awaits)

    @made_once
    def replicas(self) -> "ReplicaStore":
        """Open replicas of this process."""
        return replica_store(self.options)

    @made_once
    def tasks(self) -> "TaskCalls":
        """Runs tasks."""
        from kafka_on_spark.node.task_calls import TaskCalls

        return TaskCalls(self.runner, self.options, self._task_threads)

    @made_once
    def producers(self) -> "ProducerRuns":
        """Runs of producers that this process has begun."""
        from kafka_on_spark.produce.idempotence import ProducerRuns

        return ProducerRuns(self.metadata, self.clock, timeout_ms=self.timeout_ms)

    @made_once
    def second_inspections(self) -> "SecondInspections":
        """Inspects again what this process has found bad once."""
        from kafka_on_spark.controller.second_inspections import second_inspections_of

        return second_inspections_of(
            self.metadata,
            self.clock,
            self.replicas,
            self.tasks,
            self._fetches,
            timeout_ms=self.timeout_ms,
        )

    @made_once
    def _append_threads(self) -> "AppendThreads":
        from kafka_on_spark.produce.appender import AppendThreads

        return AppendThreads(partial(DaemonThreads, THREADS))

    @made_once
    def appends(self) -> "AppendService":
        """Plans appends, and commits what was staged."""
        from kafka_on_spark.log.segments import SegmentStore
        from kafka_on_spark.produce.append import AppendService
        from kafka_on_spark.produce.append_watch import WatchPorts
        from kafka_on_spark.produce.appender import Appender

        segments = SegmentStore(self.options)
        return AppendService(
            self.metadata,
            self.producers,
            Appender(
                self.metadata,
                self.replicas,
                segments,
                self.clock,
                threads=self._append_threads,
                random=random.random,
                second_inspections=self.second_inspections,
            ),
            self.clock,
            create_replicas=self.create_replicas,
            note_findings=self.note_findings,
            maintain=self.maintain,
            recorder=self.counts,
            watch_ports=WatchPorts(
                metadata=self.metadata,
                clock=self.clock,
                run_probes=self.tasks.probe_where_it_appends,
                find_whole=lambda image, keys: self.keeping.lost_inspector.inspect(image, keys),
                controller_id=self.controller_id,
                caller=f"process {os.getpid()} on {socket.gethostname()}",
                host=socket.gethostname(),
            ),
        )

    @property
    def timeout_ms(self) -> int:
        """How long an append or a command may take. Source: delivery.timeout.ms."""
        return self.metadata.image.settings().integer("delivery.timeout.ms")

    @made_once
    def keeping(self) -> "Keeping":
        """What keeps the cluster going, which brings half of the modules."""
        from kafka_on_spark.controller.keeping import Keeping

        return Keeping(self)

    def note_finding(self, finding: "Finding") -> None:
        """Record what upkeep has found bad, as `note_findings`."""
        self.second_inspections.record_finding(finding)
        self._inspect_later()

    def _inspect_later(self) -> None:
        if sys.is_finalizing():
            return  # a read that nobody has ended ends with the process, in which no thread starts
        from kafka_on_spark.controller.second_inspections import finish_later

        finish_later(self.second_inspections, self._maintenance)

    def create_replicas(self, keys: Iterable[PartitionKey]) -> "list[CreateReplicaResult]":
        """Create the replicas of partitions that were never created."""
        from kafka_on_spark.controller.creating_replicas import create_replicas
        from kafka_on_spark.node.tasks import LOCAL_CREATIONS_MAX, create_replica_task

        create = self.tasks.of(create_replica_task, few=LOCAL_CREATIONS_MAX)
        return create_replicas(self.metadata, create, keys, timeout_ms=self.timeout_ms)

    @property
    def table(self) -> str:
        """URL of the metadata log, a Delta table."""
        return self.metadata.table

    def run_command(self, command: "Command[T]", **arguments: object) -> T:
        """Have a command decided and committed, here or by the controller of the cluster.

        Raises: as `CommandRunner.run`.
        """
        return self.commands().run(command.order(**arguments), timeout_ms=self.timeout_ms)

    def plan_reads(
        self, topic: str, start: Mapping[int, int] | None, end: Mapping[int, int] | None
    ) -> "list[ReadOrder]":
        """Return one order a partition that has committed records between `start` and `end`.

        Raises: as `plan_reads`.
        """
        from kafka_on_spark.log.read_order import after_others, plan_reads

        suspects = self.suspects()
        orders = plan_reads(self.metadata.catch_up(), topic, start, end)
        return [after_others(each, suspects) for each in orders]

    def suspects(self) -> frozenset[ReplicaUuid]:
        """Return the replicas that this process has found bad once."""
        return self.second_inspections.suspects() if self._inspects_again else frozenset()

    def note_unread(
        self, address: "ReplicaAddress", segment: "Segment | None", error: KafkaOnSparkError
    ) -> None:
        """Record a replica that a read could not read."""
        self.second_inspections.record_unread(address, segment, error)

    def commands(self) -> "CommandRunner":
        """Return what runs one-shot commands."""
        from kafka_on_spark.controller.one_shot_commands import CommandRunner

        return CommandRunner(
            self.metadata, self.clock, controller_id=self.controller_id, id_source=ID_SOURCE
        )

    def tell_voters(self) -> None:
        """Catch up with a change of the voters, which stands, and write them on the brokers' roots,
        which obey them. A root that can't be reached obeys the former ones, which the log still
        knows; what does not answer by now does not fail the change."""
        from kafka_on_spark.metadata.commit_wait import ROOTS_AWAY
        from kafka_on_spark.store.root_identity import write_obeyed

        with suppress(*ROOTS_AWAY):
            self.metadata.catch_up()
        image, roots = self.metadata.image, metadata_log_of(self.metadata).registered_roots
        voters = image.registered_voters
        for each in image.brokers.values():
            try:
                write_obeyed(
                    each.root, each.directory_id, roots, image.generation, self.options, voters
                )
            except KafkaOnSparkError as error:
                log.info("the root of broker %d does not know: %s", each.broker_id, error)

    def finish_compaction(self, order: "ReadOrder") -> None:
        """Have a leader compacted that can't be read before: it must lead first."""
        self.keeping.replication_round().run([order.name.topic])
        self.keeping.upkeep.finish_compaction([order.key])

    def note_findings(self, reports: "Iterable[PartitionReport]" = ()) -> None:
        """Record what a first inspection found bad; the second one follows after the answer."""
        found = tuple(reports)
        if found or self._inspects_again:
            self.second_inspections.record(found)
            self._inspect_later()

    @property
    def _inspects_again(self) -> bool:
        """Whether something here may have been found bad once: else nobody has asked for them."""
        return "second_inspections" in vars(self)

    def maintain(self, image: MetadataImage, keys: Iterable[PartitionKey]) -> None:
        """Have due checkpoints made, after the answer was given and not before."""
        from kafka_on_spark.log.addresses import address_of

        addresses = [
            address_of(image, key, partition, broker_id)
            for key in keys
            if (partition := image.partition(key)) is not None
            for broker_id in partition.isr
            if partition.is_created(broker_id)
        ]
        self._due.add({address: partial(self._maintain, address) for address in addresses})

    def _maintain(self, address: "ReplicaAddress") -> None:
        with operating(CHECKPOINT):
            self.replicas.open(address).maintain()

    def finish_maintenance(self) -> None:
        """Wait until the maintenance that is due by now is done."""
        self._maintenance.submit(lambda: None).result()

    def close(self) -> None:
        """Finish what is due and end the threads; calls that come later are refused."""
        if self._inspects_again:
            from kafka_on_spark.controller.second_inspections import finish

            finish(self.second_inspections)
        self.metadata.close()
        self._maintenance.shutdown(wait=True)
        for pool in (self._task_threads, self._fetches):
            pool.shutdown(wait=True)
        self._append_threads.close()


def check_created(services: Services, metadata_root: str) -> None:
    """Check that the creation of a cluster was not cut off before its commit; close its services if
    it was.

    Raises:
        ClusterNotFoundError: It was.
    """
    if services.metadata.image.cluster_id is None:
        services.close()
        raise ClusterNotFoundError(
            f"the creation of a cluster at {metadata_root} was cut off: create it again, which goes"
            " on with what is there"
        )
