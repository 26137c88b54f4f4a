"""How much a search covers: which processes run, and how often the environment interferes."""

from dataclasses import dataclass, fields

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch
from kafka_on_spark.log.batch import ProducerStamp
from tests.builders import brokers, stamp
from tests.search.programs import Appending, Program, Recovering, Replicating
from tests.search.upkeep.upkeep_programs import Deciding, Retaining, Tidying


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The bounds of one search; within them every interleaving is visited.

    Attributes:
        values: Records, each appended by a process of its own that tries again until it is
            answered, or never does.
        elections: Leaderships after the first.
        fencings: How often a broker is taken for dead; it is always alive, and so are the
            processes that use its disk. It comes back at any time.
        min_isr: min.insync.replicas.
        rounds: Processes that replicate, round after round.
        has_recovery: A controller searches leaders where there are none.
        is_unclean: It may elect one that has lost records.
        expiries: How often the producer ids that there are expire; only a retry has one.
        wipes: Disks that are lost with all that is on them, and replaced.
        has_late_rounds: A round, too, may go on with what it saw before others changed it; else it
            has each effect on what it sees right before.
        has_late_appends: The same of appends. What keeps logs small always may.
        is_retry: The records are one append of one producer, tried by two processes.
        replicas: The brokers that have a replica.
        logs: What each broker has at the beginning, appended by the first leadership.
        isr: Who is in sync then.
        fenced: Who counts as dead then.
        merges: Replicas that are merged, each by a process of its own.
        compacts: Replicas that are compacted, likewise.
        has_retention: Somebody decides where the log starts; everything is too old.
        has_compaction: Somebody decides how far the log is compacted.
    """

    values: str = "ab"
    elections: int = 1
    fencings: int = 1
    min_isr: int = 1
    rounds: int = 1
    has_recovery: bool = False
    is_unclean: bool = False
    wipes: int = 0
    expiries: int = 0
    has_late_rounds: bool = True
    has_late_appends: bool = True
    is_retry: bool = False
    replicas: str = "1 2 3"
    logs: tuple[str, ...] = ("", "", "")
    isr: str | None = None
    fenced: str = ""
    merges: str = ""
    compacts: str = ""
    has_retention: bool = False
    has_compaction: bool = False

    def __str__(self) -> str:
        given = ((each.name, getattr(self, each.name), each.default) for each in fields(self))
        told = (f"{name}={value}" for name, value, default in given if value != default)
        return ", ".join(told) or "as by default"

    @property
    def epoch_max(self) -> LeaderEpoch:
        return LeaderEpoch(self.elections)

    @property
    def brokers(self) -> tuple[BrokerId, ...]:
        """The brokers that have a replica."""
        return brokers(self.replicas)

    @property
    def in_sync(self) -> tuple[BrokerId, ...]:
        return brokers(self.replicas if self.isr is None else self.isr)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "min.insync.replicas": str(self.min_isr),
            "unclean.leader.election.enable": str(self.is_unclean).lower(),
            "merge.min.lag.batches": "0",
            "cleanup.policy": "compact" if self.has_compaction else "delete",
            "min.cleanable.dirty.ratio": "0",
            "delete.retention.ms": "0",
        }

    @property
    def producer(self) -> ProducerStamp | None:
        return stamp(0) if self.is_retry else None

    def programs(self) -> list[Program]:
        programs: list[Program] = [Appending(each, producer=self.producer) for each in self.values]
        programs += [Replicating() for _ in range(self.rounds)]
        programs += [Recovering()] * self.has_recovery
        for work, replicas in (("merge", self.merges), ("compact", self.compacts)):
            programs += [Tidying(each, work) for each in brokers(replicas)]
        return programs + [Retaining()] * self.has_retention + [Deciding()] * self.has_compaction

    def is_late(self, program: Program) -> bool:
        """Return whether a process may go on with what it saw before others changed it."""
        if isinstance(program, Appending):
            return self.has_late_appends
        if isinstance(program, Replicating | Recovering):
            return self.has_late_rounds
        return True
