"""How much a search covers: who runs, and how often the environment interferes."""

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
        has_recovery: A controller looks for leaders where there are none.
        wipes: Disks that are lost with all that is on them, and replaced.
        rollbacks: Tables that lose their last commit (a root restored from an older copy).
        unknowns: Commits whose answer is lost.
        has_old_looks: Processes may go on with what they saw before others changed it. Without,
            a search is of a part of the interleavings only: enough for some mutants.
        is_retry: The records are one append of one producer, tried by two processes.
    """

    values: str = "ab"
    elections: int = 1
    fencings: int = 1
    min_isr: int = 1
    rounds: int = 1
    has_recovery: bool = False
    wipes: int = 0
    rollbacks: int = 0
    unknowns: int = 0
    has_old_looks: bool = True
    is_retry: bool = False

    @property
    def epoch_max(self) -> LeaderEpoch:
        """The last leadership."""
        return LeaderEpoch(self.elections)

    def programs(self) -> list[Program]:
        """Return what each process runs."""
        producer: ProducerStamp | None = stamp(0) if self.is_retry else None
        programs: list[Program] = [Appending(each, producer=producer) for each in self.values]
        programs += [Replicating() for _ in range(self.rounds)]
        return programs + [Recovering()] * self.has_recovery
