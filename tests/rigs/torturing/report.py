"""What a torture run has found: report.json."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.rigs.torturing.checks.anomalies import CHECKS, Anomaly
from tests.rigs.torturing.checks.quorum import late_decisions

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
