"""What may happen to a quorum in one seed: how often calls fail, and roots and processes suffer."""

import random
from dataclasses import dataclass, field

from kafka_on_spark.metadata.quorum.raft import QuorumSettings

CALL_FAULTS = {
    "load": ("failed", "slow", "hung"),
    "look": ("failed", "slow", "hung"),
    "read": ("failed", "slow", "hung"),
    "copy": ("failed", "slow", "hung"),
    "put": ("failed", "lost", "delayed", "unsaid", "slow", "hung"),
    "flush": ("unsaid", "slow"),
}
"""What a call on a voter's root may meet, by operation."""

PROCESS_EVENTS = ("kill", "freeze", "cut off", "denied")

QUICK = QuorumSettings(
    fetch_timeout_ms=120,
    election_timeout_ms=60,
    election_backoff_max_ms=60,
    answer_timeout_ms=80,
    commit_ms=10,
    patience_ms=300,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPlan:
    """One seed's quorum and dangers.

    Attributes:
        seed: Of everything else's randomness, too.
        voters: How many.
        spares: Roots that are no voters at first.
        changes: How often a process changes the voters or the leader, of all that it does.
        removes_any: It may remove any voter, also while another is lost.
        denials: So many processes are denied by a root in the end, each by another one.
        processes: How many decide and read.
        steps: Calls before the faults end.
        call_faults: Rate of each fault of a call, by name.
        events: Rate of each event a step, by name.
    """

    seed: int
    voters: int = 3
    spares: int = 0
    changes: float = 0.0
    removes_any: bool = False
    denials: int = 0
    processes: int = 3
    steps: int = 1500
    call_faults: dict[str, float] = field(default_factory=dict)
    events: dict[str, float] = field(default_factory=dict)


def quorum_plan_of(seed: int) -> QuorumPlan:
    """Return the plan of a seed: a few dangers of all that there are, each more or less."""
    rng = random.Random(f"quorum/{seed}")

    def swarm(most: dict[str, float]) -> dict[str, float]:
        return {name: rate * rng.random() for name, rate in most.items() if rng.random() < 0.5}

    changes = rng.choice([0.0, 0.0, 0.1, 0.3])
    return QuorumPlan(
        seed=seed,
        spares=rng.choice([1, 2]) if changes else 0,
        changes=changes,
        denials=rng.choice([0, 0, 2]),
        voters=rng.choice([3, 3, 3, 3, 1, 5]),
        processes=rng.choice([2, 3, 3]),
        steps=rng.choice([800, 1500]),
        call_faults=swarm(
            {
                "failed": 0.05,
                "slow": 0.02,
                "hung": 0.01,
                "lost": 0.05,
                "delayed": 0.05,
                "unsaid": 0.05,
            }
        ),
        events=swarm(
            {
                "away": 0.01,
                "read-only": 0.008,
                "frozen": 0.006,
                "power cut": 0.02,
                "emptied": 0.002,
                "restored": 0.01,
                "kill": 0.01,
                "freeze": 0.01,
                "cut off": 0.01,
                "denied": 0.01,
            }
        ),
    )
