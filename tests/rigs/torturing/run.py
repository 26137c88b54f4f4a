"""One torture run from its beginning to its report; the parts are in the modules beside this."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

from kafka_on_spark import Cluster
from kafka_on_spark.fsck.findings import FsckReport
from tests.rigs.rig import RigError, Say, machine, now
from tests.rigs.torturing.checks.anomalies import CHECKS, Anomaly, find_anomalies
from tests.rigs.torturing.checks.facts import facts_of, outcomes_of
from tests.rigs.torturing.checks.quorum import late_decisions, times_of
from tests.rigs.torturing.checks.verdicts import BAD, SMALL_PASS
from tests.rigs.torturing.checks.wholeness import wait_until
from tests.rigs.torturing.ending import Ending, longest_silence_s
from tests.rigs.torturing.faults.disk_faults import pace_of
from tests.rigs.torturing.faults.disks import Disks
from tests.rigs.torturing.faults.files import obey_permissions
from tests.rigs.torturing.faults.nemesis import Nemesis
from tests.rigs.torturing.folder import (
    BROKERS,
    CLUSTER_CONFIGS,
    PARTITIONS,
    TOPICS,
    TortureFolder,
)
from tests.rigs.torturing.history import OK, HistoryWriter, read_history
from tests.rigs.torturing.processes import ROLES, Processes, Role

BEGIN_S_MAX = 300.0
WATCH_S = 0.3
MORE_S_MAX = 480.0
ALIKE_MAX: Final = 20
"""Anomalies of one kind that are written out; all are counted."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to do.

    Attributes:
        minutes: How long faults go on.
        seed: Of the faults.
        roles: The processes.
        spares_brokers: The brokers' disks are left alone.
    """

    minutes: float
    seed: int
    roles: Sequence[Role] = ROLES
    spares_brokers: bool = False


def run(folder: TortureFolder, plan: Plan, say: Say) -> dict[str, Any]:
    """Torture a new cluster in `folder`; return the report."""
    if sys.platform != "linux":
        raise RigError(f"needs Linux's /proc to find what to kill, and this is {sys.platform}")
    began_at = now()
    disks = Disks(folder)
    try:
        disks.prepare(plan.minutes)
        reason = obey_permissions()
        if reason is not None:
            disks.why_not["file forbidden for moments"] = reason
        for kind, reason in disks.why_not.items():
            say(f'the fault "{kind}" is left out: {reason}')
        with create_cluster(folder) as cluster:
            processes = Processes(
                folder, plan.seed, HistoryWriter(folder.history, "crashes.1"), plan.roles
            )
            return _torture(folder, disks, cluster, processes, plan, began_at, say)
    finally:
        disks.release()


def create_cluster(folder: TortureFolder) -> Cluster:
    roots = {number: folder.root(number) for number in BROKERS}
    cluster = Cluster.create(folder.metadata_roots, roots, configs=CLUSTER_CONFIGS)
    for topic in TOPICS:
        cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=len(BROKERS))
    return cluster


def _torture(
    folder: TortureFolder,
    disks: Disks,
    cluster: Cluster,
    processes: Processes,
    plan: Plan,
    began_at: str,
    say: Say,
) -> dict[str, Any]:
    writer = HistoryWriter(folder.history, "torture.1")
    nemesis = Nemesis(
        disks,
        processes,
        cluster,
        plan.seed,
        lambda name: HistoryWriter(folder.history, f"{name}.1"),
        pace_of(plan.minutes),
        spares_brokers=plan.spares_brokers,
    )
    ending = Ending(folder, cluster, processes, writer)
    try:
        say(f"{len(processes.roles)} processes are starting, in {folder.path}")
        _wait_for_everybody(folder, processes)
        say(f"all work; faults of seed {plan.seed} for {plan.minutes:g} minutes")
        begun_ns = time.monotonic_ns()
        nemesis.start()
        _watch(processes, nemesis, time.monotonic() + 60 * plan.minutes)
        nemesis.stop()
        processes.start()
        ended_ns = time.monotonic_ns()
        ending.heal(say)
    finally:
        nemesis.stop()
        processes.end()
    count = ending.read_back()
    say(f"{count:,} records read back; checking every table at every version")
    on_voters = nemesis.on_voters
    ending.check_voters(on_voters.decisions)
    fsck = ending.check_tables(disks.rolled_back)
    events = read_history(folder.history)
    facts = facts_of(events)
    anomalies = (
        *find_anomalies(facts), *nemesis.anomalies, *on_voters.anomalies, *ending.anomalies
    )  # fmt: skip
    found = [*anomalies, *late_decisions(times_of(on_voters.decisions))]
    return {
        "seed": plan.seed,
        "minutes": round((ended_ns - begun_ns) / 60e9, 2),
        "began_at": began_at,
        "machine": machine(),
        "disks": disks.kind,
        "voters": folder.voters,
        "operations": outcomes_of(events),
        "faults": dict(nemesis.done),
        "faults_left_out": disks.why_not,
        "restarts": processes.restarts,
        "records_acked": sum(len(each.values) for each in facts.batches if each.outcome == OK),
        "records_read_back": count,
        "appends_by_client": Counter(each.client for each in facts.batches if each.outcome == OK),
        "answered_without_controller_s": [round(each, 1) for each in nemesis.on_disks.answered_s],
        "events": _decisions(cluster),
        "longest_silence_s": round(longest_silence_s(facts, begun_ns, ended_ns), 1),
        "fsck": _coverage(fsck),
        "quorum_epoch": int(cluster.describe_quorum().epoch),
        "first_decisions": times_of(on_voters.decisions),
        "anomalies": _shown(found),
        "anomaly_counts": {**dict.fromkeys(CHECKS, 0), **Counter(each.name for each in found)},
        "exit_code": 1 if found else 0,
    }


def _shown(found: Iterable[Anomaly]) -> list[dict[str, str]]:
    """Return what report.json has of the anomalies: all are counted, and some of each kind shown."""
    kept: Counter[str] = Counter()
    shown = []
    for each in found:
        kept[each.name] += 1
        if kept[each.name] <= ALIKE_MAX:
            shown.append(asdict(each))
    return shown


def _wait_for_everybody(folder: TortureFolder, processes: Processes) -> None:
    """Start everybody, and wait until each has done something: faults shall hit what works.

    Spark goes first, since everything else takes the processors from it.
    """
    for only_spark in (True, False):
        silent = {
            f"{role.name}{loop}"
            for role in processes.roles
            for loop in role.loops
            if role.role != "controller" and (role.master is not None or not only_spark)
        }
        if not wait_until(partial(_all_work, folder, processes, silent, only_spark), BEGIN_S_MAX):
            raise RigError(
                f"{', '.join(sorted(silent))} did nothing in {BEGIN_S_MAX:.0f} s: see {folder.logs}"
            )


def _all_work(
    folder: TortureFolder, processes: Processes, silent: set[str], only_spark: bool
) -> bool:
    processes.start(only_spark=only_spark)
    events = read_history(folder.history)
    silent.difference_update(event.client for event in events if event.kind == OK)
    return not silent


def _watch(processes: Processes, nemesis: Nemesis, until: float) -> None:
    """Start again what dies; go on for some time until each kind of fault was done once.

    How soon there is a driver to kill depends on how soon one works, which depends on the machine.
    """
    while (now_s := time.monotonic()) < until or (nemesis.missing and now_s < until + MORE_S_MAX):
        processes.start()
        time.sleep(WATCH_S)


def _decisions(cluster: Cluster) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for topic in TOPICS:
        for number in range(PARTITIONS):
            entries = cluster.history(topic, number)
            for before, after in pairwise(entries):
                counts["elections"] += after.leader_epoch > before.leader_epoch
                counts["ISR shrinks"] += bool(set(before.isr) - set(after.isr))
                counts["ISR expansions"] += bool(set(after.isr) - set(before.isr))
                cause = after.cause or ""
                counts["replicas found bad"] += BAD in cause
                counts["changes without a controller"] += SMALL_PASS in cause
    counts["controllers"] = int(getattr(cluster.image.controller, "controller_epoch", 0))
    return dict(counts)


def _coverage(report: FsckReport) -> dict[str, int]:
    return {
        "tables": len(report.coverage),
        "versions": sum(each.last_version - each.first_version + 1 for each in report.coverage),
        "bytes": sum(each.read_bytes for each in report.coverage),
        "findings": len(report.findings),
    }
