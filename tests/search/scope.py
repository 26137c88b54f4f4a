"""How much a search covers: which processes run, and how often the environment interferes."""

from dataclasses import dataclass

from kafka_on_spark.ids import LeaderEpoch
from kafka_on_spark.log.batch import ProducerStamp
from tests.builders import stamp
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
        rounds_each: So many rounds each; None: without end.
        has_recovery: A controller searches leaders where there are none.
        wipes: Disks that are lost with all that is on them, and replaced.
        has_late_rounds: A round, too, may go on with what it saw before others changed it; else it
            has each effect on what it sees right before.
        has_late_appends: The same of appends.
        is_retry: The records are one append of one producer, tried by two processes.
    """

    values: str = "ab"
    elections: int = 1
    fencings: int = 1
    min_isr: int = 1
    rounds: int = 1
    rounds_each: int | None = None
    has_recovery: bool = False
    wipes: int = 0
    has_late_rounds: bool = True
    has_late_appends: bool = True
    is_retry: bool = False

    @property
    def epoch_max(self) -> LeaderEpoch:
        """The last leadership."""
        return LeaderEpoch(self.elections)

    @property
    def producer(self) -> ProducerStamp | None:
        """The stamp of each append."""
        return stamp(0) if self.is_retry else None

    def programs(self) -> list[Program]:
        """Return what each process runs."""
        programs: list[Program] = [Appending(each, producer=self.producer) for each in self.values]
        programs += [self._replicating() for _ in range(self.rounds)]
        return programs + [Recovering()] * self.has_recovery

    def _replicating(self) -> Replicating:
        return Replicating(None if self.rounds_each is None else self.rounds_each - 1)
