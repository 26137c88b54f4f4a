"""What keeps a cluster going in one process: rounds, passes of the controller, and upkeep.

Apart from `services`, and made once it is asked for: a process that only appends and reads needs
none of it, and it brings half of the project's modules.
"""

import random
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from kafka_on_spark.config import check_settings
from kafka_on_spark.controller.commands.id_source import IdSource
from kafka_on_spark.controller.partitions.reports import PartitionReport
from kafka_on_spark.errors import KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.ports.counting import (
    REPLICATION_BYTES_IN,
    REPLICATION_MESSAGES_IN,
    ROUND_MS,
    timed,
)
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.compact.compaction_passes import CompactionPasses
from kafka_on_spark.service.control.chores import Expiry
from kafka_on_spark.service.control.controller_loop import ControllerLoop
from kafka_on_spark.service.control.removing_replicas import Cleaner
from kafka_on_spark.service.control.silent_groups import SilentGroups
from kafka_on_spark.service.describe.counts import Counts
from kafka_on_spark.service.maintain.upkeep_report import UpkeepReport
from kafka_on_spark.service.maintain.upkeep_round import ReplicaUpkeep
from kafka_on_spark.service.maintain.upkeep_watch import UpkeepWatch
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.service.probing.probes import ProbeOrder, ProbeResult, count_probes
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, FetchResult
from kafka_on_spark.service.replicate.fetching.fetch_pace import FetchPace
from kafka_on_spark.service.replicate.inspecting_lost import LostReplicaInspector
from kafka_on_spark.service.replicate.replication_report import ReplicationReport
from kafka_on_spark.service.replicate.replication_round import ReplicationRound
from kafka_on_spark.service.replicate.second_inspection import Finding, SecondInspections
from kafka_on_spark.service.replicate.sweep_progress import SweepProgress
from kafka_on_spark.service.retain.retention import Retention
from kafka_on_spark.service.what_if.dry_run import DryRunMetadata
from kafka_on_spark.spark.wiring.accounts import (
    CLEAN,
    COMPACT,
    PROBE,
    RETAIN,
    UPKEEP,
    accounted,
    charged,
)
from kafka_on_spark.spark.wiring.keeping_calls import KeepingCalls
from kafka_on_spark.spark.wiring.upkeep import (
    compaction_of,
    replica_upkeep,
    retention_of,
)
from kafka_on_spark.storage.access.requests import operating
from kafka_on_spark.storage.metadata.hints.heartbeat_files import HeartbeatFiles
from kafka_on_spark.storage.metadata.hints.hint_file import HintRoots
from kafka_on_spark.storage.metadata.hints.sweep_hint import FileSweepHints


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingPorts:
    """What it takes from the services of the process.

    Attributes:
        metadata: The image, and commits to it.
        clock: Says the time of what this process commits and appends.
        tasks: Runs each kind of task.
        second_inspections: Inspects again what this process has found bad once.
        hint_roots: Where hints for other processes lie.
        heartbeats: Heartbeats of groups' members.
        controller_id: A name for this process that no other process has.
        id_source: Gives ids and random numbers.
        note_finding: Takes what upkeep has found bad.
        note_findings: Takes what fetches have found bad.
        counts: What the process has counted and timed.
    """

    metadata: MetadataService
    clock: Clock
    tasks: KeepingCalls
    second_inspections: SecondInspections
    hint_roots: HintRoots
    heartbeats: HeartbeatFiles
    controller_id: str
    id_source: IdSource
    note_finding: Callable[[Finding], None]
    note_findings: Callable[[Iterable[PartitionReport]], None]
    counts: Counts


class Keeping:
    """Runs rounds and passes, and remembers between them what they have learned.

    Attributes:
        clock: Says the time of what this process commits and appends.
        tasks: Runs each kind of task.
        watch: What this process has seen of upkeep: what was done, and what fails.
        pace: Back-offs and throttles of this process's rounds.
        sweep: Which partitions this process's rounds have inspected.
        sweep_hints: Where rounds leave their sweep's progress for other processes.
        silent_groups: Fences members of groups of which nobody is left.
        cleaner: Removes tables of replicas that are assigned to no broker any more.
        upkeep: Keeps replicas small.
        lost_inspector: Inspects lost replicas, so that a complete one is taken back.
        retention: Deletes what is too old or too much, a share in each pass and round.
        compaction: Decides how far topics are compacted, in each pass and round.
    """

    def __init__(self, ports: KeepingPorts) -> None:
        metadata, clock, tasks = ports.metadata, ports.clock, ports.tasks
        self._ports = ports
        self._metadata = metadata
        self.clock = clock
        self.tasks = tasks
        self.watch = watch = UpkeepWatch(clock)
        self.pace = FetchPace(clock)
        self.sweep_hints = FileSweepHints(ports.hint_roots)
        self.sweep = SweepProgress(clock, self.sweep_hints, random_below=random.randrange)
        self.silent_groups = SilentGroups(ports.heartbeats, clock)
        self.cleaner = Cleaner(
            metadata, clock, run_lists=tasks.list_tables, run_removes=tasks.remove_tables
        )
        self.upkeep: ReplicaUpkeep = replica_upkeep(
            metadata, ports.hint_roots, clock, tasks, watch, ports.note_finding
        )
        self.lost_inspector = LostReplicaInspector(clock, run_lost_inspections=tasks.inspect_lost)
        timeout_ms = self._timeout_ms
        self.retention: Retention = retention_of(metadata, tasks, watch, timeout_ms=timeout_ms)
        self.compaction: CompactionPasses = compaction_of(
            metadata, tasks, watch, timeout_ms=timeout_ms
        )

    @property
    def _timeout_ms(self) -> int:
        return self._metadata.image.settings().integer("delivery.timeout.ms")

    def replication_round(self, configs: Mapping[str, object] | None = None) -> ReplicationRound:
        """Return what plans and concludes rounds; `configs` override all other settings.

        Raises:
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        return ReplicationRound(
            self._metadata,
            self.clock,
            sweep=self.sweep,
            run_fetches=self.tasks.fetch,
            run_inspections=self.tasks.inspect_partitions,
            run_creations=self.tasks.create_replicas,
            new_uuid=self._ports.id_source.new_uuid,
            timeout_ms=self._timeout_ms,
            second_inspections=self._ports.second_inspections,
            lost_inspector=self.lost_inspector,
            pace=self.pace,
            compact_followers=self.upkeep.compact_followers,
            run_probes=self._probe,
            host=socket.gethostname(),
            overrides=check_settings(configs or {}, topic_only=False),
        )

    def upkeep_failures(self) -> tuple[str, ...]:
        """Return what of upkeep fails, in words."""
        return tuple(map(str, self.watch.current(self._metadata.image)))

    def replicate(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_sweep: bool = False,
        configs: Mapping[str, object] | None = None,
        copy_ms_max: float = inf,
    ) -> ReplicationReport:
        """Run a round, with its share of upkeep, as documented at `Cluster.replicate`."""
        counts = self._ports.counts
        with timed(counts, ROUND_MS):
            report = self.replication_round(configs).run(
                topics, is_sweep=is_sweep, copy_ms_max=copy_ms_max
            )
        counts.count(REPLICATION_BYTES_IN, report.copied_bytes)
        counts.count(REPLICATION_MESSAGES_IN, report.copied_records)
        for part, operation in (
            (self.retention, RETAIN),
            (self.compaction, COMPACT),
            (self.upkeep, UPKEEP),
        ):
            with operating(operation):
                part.run_share(topics)
        return replace(report, upkeep_failures=self.upkeep_failures())

    def maintain(
        self,
        topics: str | Iterable[str] | None,
        *,
        is_dry_run: bool,
        after_part: Callable[[int, int], None] | None,
    ) -> UpkeepReport:
        """Do all upkeep that is due, as documented at `Cluster.maintain`."""
        # What is deleted need not be merged before.
        with operating(RETAIN):
            retained = self.retention.run_all(topics, is_dry_run=is_dry_run)
        with operating(COMPACT):
            decided = self.compaction.run_all(topics, is_dry_run=is_dry_run)
        done = self.upkeep.run_all(
            topics, is_dry_run=is_dry_run, after_part=after_part or (lambda done, total: None)
        )
        report = UpkeepReport(rows=retained).plus(UpkeepReport(rows=decided)).plus(done)
        if not is_dry_run:  # from now on tombstones are about to go
            for _ in range(2):  # what is cleaned now; then the wait for tombstones begins
                with operating(COMPACT):
                    report = report.plus(UpkeepReport(rows=self.compaction.run_all(topics)))
        return report

    def controller_loop(
        self,
        dry_run: DryRunMetadata | None = None,
        *,
        clock: Clock | None = None,
        after_pass: Callable[[int], None] | None = None,
    ) -> ControllerLoop:
        """Return a control loop that has not begun; with `dry_run` it changes `dry_run` alone.
        `clock` is taken in place of that of the services."""
        return ControllerLoop(
            dry_run or self._metadata,
            clock or self.clock,
            controller_id=self._ports.controller_id,
            run_probes=self._probe,
            run_inspections=lambda orders: self._ports.second_inspections.proposed(
                self.tasks.inspect_replicas(orders)
            ),
            id_source=self._ports.id_source,
            timeout_ms=self._timeout_ms,
            suspects=self._ports.second_inspections.suspects,
            lost_inspector=self.lost_inspector if dry_run is None else None,
            clean=charged(self.cleaner.clean, CLEAN) if dry_run is None else None,
            maintain=charged(self.upkeep.run_share, UPKEEP) if dry_run is None else None,
            run_commands=self._run_commands if dry_run is None else lambda orders: [],
            retention=accounted(self.retention, RETAIN) if dry_run is None else None,
            expiry=Expiry(self._metadata.clock) if dry_run is None else None,
            silent_groups=self.silent_groups if dry_run is None else None,
            compaction=accounted(self.compaction, COMPACT) if dry_run is None else None,
            after_pass=after_pass,
        )

    def _probe(self, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
        with operating(PROBE):
            results = self.tasks.probe(orders)
        count_probes(self._ports.counts, results)
        return results

    def _run_commands(self, orders: Sequence[FetchOrder]) -> list[FetchResult]:
        """Fetch as the controller asks for, and record what the fetches found bad.

        Raises:
            KafkaStorageError: Spark has given the job up. The fetches are lost; nothing else is.
        """
        try:
            results = self.tasks.fetch(orders)
            self._ports.note_findings([result.report for result in results])
            return results
        except KafkaOnSparkError:
            raise
        except Exception as error:  # whatever Spark calls the loss of an executor
            raise KafkaStorageError(f"the executors did not do them: {error}") from error
