"""What a torture run has found: report.json, and tables on the terminal."""

import json
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.torture.harness.checks.anomalies import CHECKS, Anomaly
from tests.torture.harness.checks.quorum import late_decisions

ALIKE_MAX: Final = 20
"""Anomalies of one kind that are written out; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one run.

    Attributes:
        seed: Faults and choices came from it; the moments at which they hit did not.
        minutes: How long faults went on.
        began_at: UTC, ISO 8601.
        machine: Cores, memory, system.
        disks: What the brokers' disks were.
        operations: By call: how many were ok, fail (refused) and info (nobody knows).
        errors: Calls that were not ok, by class of error.
        faults: How many were done, by kind.
        faults_left_out: Kinds that can't be done here, with the reason.
        restarts: Processes that were started again.
        records_acked: Records that were acknowledged, acks=all.
        records_read_back: Records in the logs at the end.
        appends_by_client: Batches that were acknowledged, by the client that sent them.
        unknown_appends: Batches without a promise (no answer, an error that says nothing, acks 0
            and 1), and how many of them turned out committed.
        stray_commits: Commits under way that landed where a root was away; nobody counted them.
        answered_without_controller_s: Each time that a disk was away and nobody controlled: when
            every partition had got an append that was begun after it.
        events: What the metadata log says: elections, ISR changes, replicas lost.
        longest_silence_s: Longest time without an acknowledged append to any partition.
        longest_silence_s_by_partition: The same for each.
        fsck: Tables, versions and bytes that were checked, and findings.
        anomalies: What must not be, in the history, the tables and the voters' logs.
        voters: Metadata roots of the cluster.
        quorum_epoch: Of the metadata quorum at the end; it began with 1, and each election raised it.
        first_decisions: With several voters: how soon decisions were made, see `times_of`.
        first_commands: The same of commands, which wait for a controller where one holds the lease.
    """

    seed: int
    minutes: float
    began_at: str
    machine: Mapping[str, Any]
    disks: str
    operations: Mapping[str, Mapping[str, int]]
    errors: Mapping[str, int]
    faults: Mapping[str, int]
    faults_left_out: Mapping[str, str]
    restarts: int
    records_acked: int
    records_read_back: int
    appends_by_client: Mapping[str, int]
    unknown_appends: Mapping[str, int]
    stray_commits: int
    answered_without_controller_s: Sequence[float]
    events: Mapping[str, int]
    longest_silence_s: float
    longest_silence_s_by_partition: Mapping[str, float]
    fsck: Mapping[str, int]
    anomalies: tuple[Anomaly, ...]
    voters: int = 1
    quorum_epoch: int = 1
    first_decisions: Mapping[str, Any] = field(default_factory=dict)
    first_commands: Mapping[str, Any] = field(default_factory=dict)

    @property
    def found(self) -> tuple[Anomaly, ...]:
        """Everything that must not be: the anomalies, and first decisions that came too late."""
        return (*self.anomalies, *late_decisions(self.first_decisions))

    @property
    def exit_code(self) -> int:
        """0 if nothing was found."""
        return 1 if self.found else 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        counts = Counter(each.name for each in self.found)
        kept: Counter[str] = Counter()
        shown = []
        for each in self.found:
            kept[each.name] += 1
            if kept[each.name] <= ALIKE_MAX:
                shown.append(asdict(each))
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "anomalies": shown,
            "anomaly_counts": {**dict.fromkeys(CHECKS, 0), **counts},
            "exit_code": self.exit_code,
        }


def machine() -> dict[str, Any]:
    """Return what the run ran on."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def now() -> str:
    """Return the time for people."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_report(report: Report, file: Path) -> None:
    """Write report.json."""
    file.write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")


def print_report(report: Report, console: Console) -> None:
    """Print the report as tables."""
    operations = _table("calls", "ok", "refused", "unknown")
    for call, counts in sorted(report.operations.items()):
        operations.add_row(call, *(f"{counts[kind]:,}" for kind in ("ok", "fail", "info")))
    console.print(operations)
    faults = _table("faults", "times")
    for kind, count in sorted(report.faults.items()):
        faults.add_row(kind, str(count))
    for kind, reason in report.faults_left_out.items():
        faults.add_row(kind, f"not done: {reason}")
    console.print(faults)
    figures = _table("figure", "value")
    for name, value in _figures(report).items():
        figures.add_row(name, value)
    console.print(figures)
    for each in report.as_dict()["anomalies"]:
        console.print(
            f"{each['name']} {each['key']}: {each['sentence']}", style="red", markup=False
        )


def _table(*columns: str) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left")
    return table


def _figures(report: Report) -> dict[str, str]:
    events = {name: f"{count:,}" for name, count in report.events.items()}
    clients = {
        f"batches acknowledged to {client}": f"{count:,}"
        for client, count in report.appends_by_client.items()
    }
    return {
        "minutes of faults": f"{report.minutes:g}",
        "seed": str(report.seed),
        "disks": report.disks,
        "processes started again": str(report.restarts),
        "records acknowledged": f"{report.records_acked:,}",
        **clients,
        "records read back": f"{report.records_read_back:,}",
        "batches without a promise": f"{report.unknown_appends['appends']:,}",
        "of them committed": f"{report.unknown_appends['committed']:,}",
        "commits that landed where a root was away": str(report.stray_commits),
        **events,
        "longest time without an acknowledged append": f"{report.longest_silence_s:.1f} s",
        "longest for one partition": f"{_longest(report):.1f} s",
        "longest until all answered without a controller": f"{_longest_alone(report):.1f} s",
        **_quorum(report),
        "table versions checked by fsck": f"{report.fsck['versions']:,}",
        "anomalies": str(len(report.found)),
    }


def _quorum(report: Report) -> dict[str, str]:
    """Return what several voters have done."""
    if not report.first_decisions:
        return {}
    return {
        "epoch of the metadata quorum at the end": str(report.quorum_epoch),
        **_times("first decisions", report.first_decisions),
        **_times("first commands", report.first_commands),
    }


def _times(what: str, times: Mapping[str, Any]) -> dict[str, str]:
    """Return how soon something was done after a majority of roots was well."""
    if not times:
        return {}
    bound_s = times["bound_s"]
    return {
        f"{what} after a majority of roots was well": f"{times['count']:,}",
        f"{what}: median, 99 of 100, longest": " / ".join(
            f"{times[name]:.2f} s" for name in ("median_s", "of_100_99_s", "longest_s")
        ),
        f"{what}: longest after": times["longest_after"],
        f"{what}: within {bound_s:g} s": f"{times['within_bound']:,}",
        f"{what}: within {4 * bound_s:g} s": f"{times['within_four_bounds']:,}",
    }


def _longest(report: Report) -> float:
    return max(report.longest_silence_s_by_partition.values(), default=0.0)


def _longest_alone(report: Report) -> float:
    return max(report.answered_without_controller_s, default=0.0)
