"""Runs a round of replication, the upkeep that is due, or a controller, in one process.

What each remembers from one run to the next is a part of the process's node.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf

from kafka_on_spark.base.metric import REPLICATION_BYTES_IN, REPLICATION_MESSAGES_IN, ROUND_MS
from kafka_on_spark.base.process import Clock
from kafka_on_spark.controller.compaction_passes import CompactionPasses
from kafka_on_spark.controller.controller_loop import Chores, ControllerLoop, Expiry
from kafka_on_spark.controller.inspections import LostReplicaInspector, inspect_task
from kafka_on_spark.controller.probing import probe
from kafka_on_spark.controller.replica_tables import Cleaner
from kafka_on_spark.controller.replication_round import ReplicationReport, ReplicationRound
from kafka_on_spark.controller.retention import Retention
from kafka_on_spark.controller.upkeep import ReplicaUpkeep
from kafka_on_spark.controller.upkeep_report import UpkeepReport
from kafka_on_spark.groups.liveness import SilentGroups
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.metadata.result import MetadataDecider
from kafka_on_spark.node.node import Node, heartbeats
from kafka_on_spark.store.requests import COMPACT, RETAIN, UPKEEP, operating


def silent_groups(node: Node) -> SilentGroups:
    """Return what fences members of groups of which nobody is left."""
    return SilentGroups(node.part(heartbeats), node.clock)


def replicate(
    node: Node,
    topics: str | Iterable[str] | None = None,
    *,
    is_sweep: bool = False,
    configs: Mapping[str, object] | None = None,
    copy_ms_max: float = inf,
) -> ReplicationReport:
    """Run a round, with its share of upkeep, as documented at `Cluster.replicate`."""
    with node.counts.timed(ROUND_MS):
        report = ReplicationRound(node, configs).run(
            topics, is_sweep=is_sweep, copy_ms_max=copy_ms_max
        )
    node.counts.count(REPLICATION_BYTES_IN, report.copied_bytes)
    node.counts.count(REPLICATION_MESSAGES_IN, report.copied_records)
    with operating(RETAIN):
        node.part(Retention).run_share(topics)
    with operating(COMPACT):
        node.part(CompactionPasses).run_share(topics)
    with operating(UPKEEP):
        node.part(ReplicaUpkeep).run_share(topics)
    return report


def maintain(node: Node, topics: str | Iterable[str] | None, *, is_dry_run: bool) -> UpkeepReport:
    """Do all upkeep that is due, as documented at `Cluster.maintain`."""
    # What is deleted need not be merged before.
    with operating(RETAIN):
        retained = node.part(Retention).run_all(topics, is_dry_run=is_dry_run)
    with operating(COMPACT):
        decided = node.part(CompactionPasses).run_all(topics, is_dry_run=is_dry_run)
    done = node.part(ReplicaUpkeep).run_all(topics, is_dry_run=is_dry_run)
    report = UpkeepReport(rows=retained).plus(UpkeepReport(rows=decided)).plus(done)
    if not is_dry_run:  # from now on tombstones are about to go
        for _ in range(2):  # what is cleaned now; then the wait for tombstones begins
            with operating(COMPACT):
                decided = node.part(CompactionPasses).run_all(topics)
            report = report.plus(UpkeepReport(rows=decided))
    return report


def finish_compaction(node: Node, order: ReadOrder) -> None:
    """Have a leader compacted that can't be read before: it must lead first."""
    ReplicationRound(node).run([order.name.topic])
    node.part(ReplicaUpkeep).finish_compaction([order.key])


def controller_loop(
    node: Node,
    dry_run: MetadataDecider | None = None,
    *,
    clock: Clock | None = None,
    chores: Chores | None = None,
    after_pass: Callable[[int], None] | None = None,
) -> ControllerLoop:
    """Return a control loop that has not begun; with `dry_run` it changes `dry_run` alone. `clock`
    and `chores` are taken in place of the node's."""
    return ControllerLoop(
        dry_run or node.metadata,
        clock or node.clock,
        controller_id=node.controller_id,
        run_probes=partial(probe, node),
        run_inspections=partial(node.tasks.run, inspect_task),
        id_source=node.ids,
        timeout_ms=node.timeout_ms,
        lost_inspector=None if dry_run else node.part(LostReplicaInspector),
        chores=chores or (Chores() if dry_run else chores_of(node)),
        after_pass=after_pass,
    )


def chores_of(node: Node) -> Chores:
    """Return what a pass of the controller does besides its decisions about leaders."""
    return Chores(
        retention=node.part(Retention),
        expiry=Expiry(node.metadata.clock),
        silent_groups=node.part(silent_groups),
        compaction=node.part(CompactionPasses),
        clean=node.part(Cleaner).clean,
        maintain=node.part(ReplicaUpkeep).run_share,
    )
