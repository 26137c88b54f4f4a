"""How much a search covers: which processes run, and how often the environment interferes."""

from dataclasses import dataclass, fields

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch
from kafka_on_spark.log.batch import ProducerStamp
from tests.builders import brokers, stamp
from tests.search.programs import Appending, Program, Recovering, Replicating


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
        wipes: Disks that are lost with all that is on them, and replaced.
        has_late_rounds: A round, too, may go on with what it saw before others changed it; else it
            has each effect on what it sees right before.
        has_late_appends: The same of appends.
        is_retry: The records are one append of one producer, tried by two processes.
        replicas: The brokers that have a replica.
    """

    values: str = "ab"
    elections: int = 1
    fencings: int = 1
    min_isr: int = 1
    rounds: int = 1
    has_recovery: bool = False
    wipes: int = 0
    has_late_rounds: bool = True
    has_late_appends: bool = True
    is_retry: bool = False
    replicas: str = "1 2 3"

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
    def producer(self) -> ProducerStamp | None:
        return stamp(0) if self.is_retry else None

    def programs(self) -> list[Program]:
        programs: list[Program] = [Appending(each, producer=self.producer) for each in self.values]
        programs += [Replicating() for _ in range(self.rounds)]
        return programs + [Recovering()] * self.has_recovery

    def is_late(self, program: Program) -> bool:
        """Return whether a process may go on with what it saw before others changed it."""
        return self.has_late_appends if isinstance(program, Appending) else self.has_late_rounds
