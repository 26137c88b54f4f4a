"""What keeps a cluster going in one process: rounds, passes of the controller, and upkeep.

Apart from `services`, and made once it is asked for: a process that only appends and reads needs
none of it, and it brings half of the project's modules.
"""

import random
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

from kafka_on_spark.base.config import check_settings
from kafka_on_spark.base.counting import REPLICATION_BYTES_IN, REPLICATION_MESSAGES_IN, ROUND_MS
from kafka_on_spark.base.process import Clock
from kafka_on_spark.controller.compaction_passes import CompactionPasses
from kafka_on_spark.controller.controller_loop import Chores, ControllerLoop, Expiry
from kafka_on_spark.controller.fetch_plan import FetchPace
from kafka_on_spark.controller.inspections import LostReplicaInspector
from kafka_on_spark.controller.keeping_tasks import (
    compaction_look_task,
    description_task,
    inspect_lost_task,
    inspect_partition_task,
    list_task,
    look_task,
    remove_task,
    size_task,
    upkeep_task,
    visit_task,
)
from kafka_on_spark.controller.probes import ProbeOrder, ProbeResult
from kafka_on_spark.controller.removing_replicas import Cleaner
from kafka_on_spark.controller.replication_round import ReplicationReport, ReplicationRound
from kafka_on_spark.controller.retention import Retention
from kafka_on_spark.controller.root_upkeep import RootUpkeep
from kafka_on_spark.controller.sweep_progress import UPKEEP_NAME, FileSweepHints, SweepProgress
from kafka_on_spark.controller.upkeep_report import UpkeepReport, UpkeepTotals
from kafka_on_spark.controller.upkeep_round import UPKEEP as UPKEEP_PACE
from kafka_on_spark.controller.upkeep_round import ReplicaUpkeep
from kafka_on_spark.groups.liveness import SilentGroups
from kafka_on_spark.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.node.task_calls import or_away
from kafka_on_spark.node.tasks import (
    LOCAL_CREATIONS_MAX,
    create_replica_task,
    fetch_task,
    inspect_task,
    log_start_task,
    probe_task,
)
from kafka_on_spark.observe.counts import count_probes
from kafka_on_spark.store.accounts import CLEAN, COMPACT, PROBE, RETAIN, UPKEEP, accounted, charged
from kafka_on_spark.store.clock import ID_SOURCE, SystemClock, processor_ms
from kafka_on_spark.store.requests import operating

if TYPE_CHECKING:
    from kafka_on_spark.node.services import Services

LOCAL_LOOKS_MAX: Final = 8
"""So few logs are looked at in this process faster than a Spark job begins."""


class Keeping:
    """Runs rounds and passes, and remembers between them what they have learned.

    Attributes:
        totals: What this process has done of upkeep.
        pace: Back-offs and throttles of this process's rounds.
        sweep: Which partitions this process's rounds have inspected.
        sweep_hints: Where rounds leave their sweep's progress for other processes.
        silent_groups: Fences members of groups of which nobody is left.
        cleaner: Removes tables of replicas that are assigned to no broker any more.
        upkeep: Keeps replicas small.
        lost_inspector: Inspects lost replicas, so that a complete one is taken back.
        retention: Deletes what is too old or too much, a share in each pass and round.
        compaction: Decides how far topics are compacted, in each pass and round.
        describe: Says what replicas' logs are like, and what of their upkeep is due.
        measure: Returns the bytes of replicas.
    """

    def __init__(self, services: "Services") -> None:
        metadata, clock, tasks = services.metadata, services.clock, services.tasks
        hint_roots, timeout_ms = services.hint_roots, services.timeout_ms
        self._services, self._metadata = services, metadata
        self.describe = tasks.of(description_task, few=LOCAL_LOOKS_MAX)
        self.measure = tasks.of(size_task)
        self.totals = UpkeepTotals()
        self.pace = FetchPace(clock)
        self.sweep_hints = FileSweepHints(hint_roots)
        self.sweep = SweepProgress(clock, self.sweep_hints, random_below=random.randrange)
        self.silent_groups = SilentGroups(services.heartbeats, clock)
        self.cleaner = Cleaner(
            metadata, clock, run_lists=tasks.of(list_task), run_removes=tasks.of(remove_task)
        )
        self.upkeep = ReplicaUpkeep(
            metadata,
            clock,
            progress=SweepProgress(
                clock,
                FileSweepHints(hint_roots, UPKEEP_NAME),
                random_below=random.randrange,
                pace=UPKEEP_PACE,
            ),
            run_upkeep=or_away(tasks.of(upkeep_task)),
            roots=RootUpkeep(metadata, clock, visit=or_away(tasks.of(visit_task))),
            totals=self.totals,
            record_finding=services.note_finding,
            processor_ms=processor_ms if tasks.are_in_this_process else None,
        )
        self.lost_inspector = LostReplicaInspector(
            clock, run_lost_inspections=tasks.of(inspect_lost_task)
        )
        self.retention = Retention(
            metadata,
            SystemClock(),
            metadata.clock,
            run_looks=tasks.of(look_task, few=LOCAL_LOOKS_MAX),
            run_log_starts=tasks.of(log_start_task),
            random_below=random.randrange,
            timeout_ms=timeout_ms,
            totals=self.totals,
        )
        self.compaction = CompactionPasses(
            metadata,
            SystemClock(),
            metadata.clock,
            run_looks=tasks.of(compaction_look_task, few=LOCAL_LOOKS_MAX),
            timeout_ms=timeout_ms,
            random_below=random.randrange,
            totals=self.totals,
        )

    def replication_round(self, configs: Mapping[str, object] | None = None) -> ReplicationRound:
        """Return what plans and concludes rounds; `configs` override all other settings.

        Raises:
            InvalidConfigError: A setting is unknown or its value not allowed.
        """
        tasks = self._services.tasks
        return ReplicationRound(
            self._metadata,
            self._services.clock,
            sweep=self.sweep,
            run_fetches=tasks.of(fetch_task),
            run_inspections=tasks.of(inspect_partition_task),
            run_creations=tasks.of(create_replica_task, few=LOCAL_CREATIONS_MAX),
            new_uuid=ID_SOURCE.new_uuid,
            timeout_ms=self._services.timeout_ms,
            second_inspections=self._services.second_inspections,
            lost_inspector=self.lost_inspector,
            pace=self.pace,
            compact_followers=self.upkeep.compact_followers,
            run_probes=self._probe,
            host=socket.gethostname(),
            overrides=check_settings(configs or {}, topic_only=False),
        )

    def replicate(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_sweep: bool = False,
        configs: Mapping[str, object] | None = None,
        copy_ms_max: float = inf,
    ) -> ReplicationReport:
        """Run a round, with its share of upkeep, as documented at `Cluster.replicate`."""
        counts = self._services.counts
        with counts.timed(ROUND_MS):
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
        return report

    def maintain(
        self,
        topics: str | Iterable[str] | None,
        *,
        is_dry_run: bool,
    ) -> UpkeepReport:
        """Do all upkeep that is due, as documented at `Cluster.maintain`."""
        # What is deleted need not be merged before.
        with operating(RETAIN):
            retained = self.retention.run_all(topics, is_dry_run=is_dry_run)
        with operating(COMPACT):
            decided = self.compaction.run_all(topics, is_dry_run=is_dry_run)
        done = self.upkeep.run_all(topics, is_dry_run=is_dry_run)
        report = UpkeepReport(rows=retained).plus(UpkeepReport(rows=decided)).plus(done)
        if not is_dry_run:  # from now on tombstones are about to go
            for _ in range(2):  # what is cleaned now; then the wait for tombstones begins
                with operating(COMPACT):
                    report = report.plus(UpkeepReport(rows=self.compaction.run_all(topics)))
        return report

    def controller_loop(
        self,
        dry_run: MetadataDecider | None = None,
        *,
        clock: Clock | None = None,
        after_pass: Callable[[int], None] | None = None,
    ) -> ControllerLoop:
        """Return a control loop that has not begun; with `dry_run` it changes `dry_run` alone.
        `clock` is taken in place of that of the services."""
        return ControllerLoop(
            dry_run or self._metadata,
            clock or self._services.clock,
            controller_id=self._services.controller_id,
            run_probes=self._probe,
            run_inspections=self._services.tasks.of(inspect_task),
            id_source=ID_SOURCE,
            timeout_ms=self._services.timeout_ms,
            lost_inspector=self.lost_inspector if dry_run is None else None,
            chores=self._chores() if dry_run is None else Chores(),
            after_pass=after_pass,
        )

    def _chores(self) -> Chores:
        return Chores(
            retention=accounted(self.retention, RETAIN),
            expiry=Expiry(self._metadata.clock),
            silent_groups=self.silent_groups,
            compaction=accounted(self.compaction, COMPACT),
            clean=charged(self.cleaner.clean, CLEAN),
            maintain=charged(self.upkeep.run_share, UPKEEP),
        )

    def _probe(self, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
        with operating(PROBE):
            results = self._services.tasks.of(probe_task)(orders)
        count_probes(self._services.counts, results)
        return results
