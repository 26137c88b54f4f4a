"""Plans that draw about half of the kinds of faults, each at a rate of its own (swarm testing), so that
no fault hides what another would show."""

import random
from dataclasses import replace
from typing import Any, Final

from tests.simulation.plan import CALL_FAULTS, Plan

EVENTS: Final = {
    # event: how often of 1,000 steps, at most
    "offline": 12,
    "read-only": 4,
    "full": 4,
    "burst": 6,
    "blink": 10,
    "sticky": 2,
    "wipe": 3,
    "lose tables": 3,
    "roll back": 30,  # most of the time its broker is not down, and nothing comes of it
    "empty": 3,
    "rot": 3,
    "mend": 20,  # most of the time nothing is damaged
    "metadata away": 3,
    "kill": 6,
    "freeze": 8,
    "second driver": 3,
    "clock jump": 4,
}

UNCLEAN_EVERY: Final = 15
"""One seed in so many has a plan that leads to unclean elections."""

RESTORED_EVERY: Final = 15
"""One seed in so many has a plan in which lost replicas are put right, and taken back."""


def plan_of(seed: int) -> Plan:
    rng = random.Random(f"plan/{seed}")

    def swarm(names: dict[str, float]) -> dict[str, float]:
        return {name: most * rng.random() for name, most in names.items() if rng.random() < 0.5}

    calls = sorted({fault for faults in CALL_FAULTS.values() for fault in faults} - {"hung"})
    plan = Plan(
        seed=seed,
        brokers=rng.choice([3, 3, 4]),
        partitions=rng.choice([1, 1, 2]),
        min_isr=rng.choice([2, 2, 2, 2, 1]),
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(1, 3))),
        steps=rng.choice([400, 800, 1200]),
        call_faults=swarm(dict.fromkeys(calls, 0.06)) | _hangs(seed),
        events=swarm({name: most / 1000 for name, most in EVENTS.items()}),
        twin_chance=rng.choice([0.0, 0.0, 0.1, 0.5]),
        controllers=rng.choice([1, 2, 2]),
        replicators=rng.choice([1, 1, 2]),
        snapshot_records=rng.choice([15, 50, 1000]),
        lag_ms=rng.choice([60, 300, 2000, 10_000]),
        session_ms=rng.choice([40, 100, 300, 1500]),
        fetch_bytes=rng.choice([100, 400, 1_000_000]),
        skew_ms=rng.choice([0, 0, 3000, 3_600_000]),
        is_unclean=rng.random() < 0.12,
        delete_delay_ms=rng.choice([0, 200, 2000]),
        sweep_ms=rng.choice([100, 1000, 10_000]),
        verdict_ms=rng.choice([20, 100, 300, 2000]),
    )
    if seed % RESTORED_EVERY == 3:
        return _restored(plan)
    return unclean(plan) if seed % UNCLEAN_EVERY == 4 else plan


def _restored(plan: Plan) -> Plan:
    """Return the plan with files that are damaged, and put right once the replica is called lost;
    its new incarnation takes many commits, so that the old one is found whole before that is in sync."""
    return replace(
        plan,
        brokers=3,
        partitions=1,
        min_isr=2,
        steps=1200,
        call_faults={},
        events={"rot": 0.05, "mend": 0.01, "restore": 0.3},
        fetch_bytes=100,
        lag_ms=2000,
        session_ms=300,
        skew_ms=0,
        is_unclean=False,
        delete_delay_ms=0,
        sweep_ms=100,
        verdict_ms=20,
    )


def unclean(plan: Plan) -> Plan:
    """Return the plan with only what leads to unclean elections: an ISR that shrinks to one, whose
    disk then loses what it has. Swarms meet them too rarely, and they are forbidden to most."""
    return replace(
        plan,
        brokers=3,
        min_isr=1,
        steps=1200,
        call_faults={},
        events={"offline": 0.03, "empty": 0.01, "rot": 0.01, "wipe": 0.005, "lose tables": 0.005},
        lag_ms=60,
        session_ms=40,
        verdict_ms=20,
        is_unclean=True,
    )


def _hangs(seed: int) -> dict[str, float]:
    """Return how often a seed's calls hang; drawn apart, so that its other dangers are as ever."""
    rng = random.Random(f"plan/{seed}/hangs")
    return {"hung": 0.03 * rng.random()} if seed % 5 == 0 else {}


# One danger above the rest.


def _small(seed: int, **given: Any) -> Plan:
    return replace(
        plan_of(seed),
        brokers=3,
        partitions=1,
        steps=1500,
        controllers=2,
        replicators=2,
        is_unclean=False,
        **given,
    )


def eager(seed: int) -> Plan:
    """Return a plan of many elections and many zombies, and few other faults."""
    plan = _small(
        seed,
        min_isr=2 if seed % 2 else 1,
        clients=(None, "p1", None),
        lag_ms=500,
        events={"offline": 0.02, "freeze": 0.01, "kill": 0.004, "second driver": 0.004},
        call_faults={"slow": 0.02, "stale": 0.02},
    )
    return replace(plan, is_unclean=plan_of(seed).is_unclean)


def damaged(seed: int) -> Plan:
    """Return a plan of files that are damaged and put right, and of inspections that fail in passing."""
    plan = _small(
        seed,
        min_isr=2,
        clients=(None,),
        lag_ms=60,
        session_ms=40,
        verdict_ms=20,
        events={"rot": 0.01, "mend": 0.05, "offline": 0.02, "blink": 0.01},
        call_faults={"failed": 0.02, "mistaken": 0.02},
    )
    return replace(plan, is_unclean=True)


def hanging(seed: int) -> Plan:
    """Return a plan of commits that hang and land late, on disks that come and go."""
    plan = _small(
        seed,
        min_isr=2,
        clients=(None, None, None),
        lag_ms=300,
        session_ms=100,
        events={"offline": 0.006},
        call_faults={"delayed": 0.3, "hung": 0.003},
    )
    return replace(plan, steps=2000)


def dozing(seed: int) -> Plan:
    """Return a plan of rounds that sleep while a leader goes, and others inspect what is left: brokers
    are away for longer than a sweep takes before they are fenced."""
    return Plan(
        seed=seed,
        clients=(None,),
        steps=1500,
        replicators=3,
        lag_ms=80,
        session_ms=80,
        sweep_ms=20,
        events={"offline": 0.02},
        call_faults={"slow": 0.05},
    )


def retried(seed: int) -> Plan:
    """Return a plan of producers that die in appends to two partitions, of which one may be committed,
    and are followed by others that retry with other records."""
    return replace(
        plan_of(seed),
        partitions=2,
        clients=("p0", "p1"),
        steps=1500,
        events={"kill": 0.01, "second driver": 0.004, "offline": 0.004},
        call_faults={"slow": 0.02},
        is_unclean=False,
        changes_retries=True,
    )
