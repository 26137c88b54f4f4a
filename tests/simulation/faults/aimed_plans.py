"""Plans that aim at one danger each, and draw how great it is, and what else goes wrong."""

import random
from dataclasses import replace

from tests.simulation.faults.swarm_plans import unclean
from tests.simulation.plan import NO_BOUND, Plan


def uncontrolled(seed: int) -> Plan:
    """Return a plan in which nobody controls the cluster, or only for a moment: appends decide for
    themselves, some of which lose sight of roots that others reach."""
    rng = random.Random(f"lonely/{seed}")
    rare = {"kill": 0.002, "second driver": 0.002, "metadata away": 0.002, "read-only": 0.004}
    return Plan(
        seed=seed,
        brokers=rng.choice([3, 3, 4]),
        partitions=rng.choice([1, 2]),
        min_isr=rng.choice([2, 2, 1]),
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(2, 4))),
        steps=rng.choice([2000, 4000]),
        call_faults=rng.choice([{}, {"slow": 0.01}, {"slow": 0.02, "lost": 0.02}]),
        events={
            "offline": rng.choice([0.002, 0.01]),
            "freeze": rng.choice([0.0, 0.01]),
            "cut off": rng.choice([0.0, 0.004, 0.01]),
            "denied": rng.choice([0.0, 0.004]),
            "rejoin": 0.005,
            **{name: rate for name, rate in rare.items() if rng.random() < 0.5},
        },
        controllers=rng.choice([0, 0, 0, 1]),
        lag_ms=rng.choice([1000, 30_000]),
        session_ms=rng.choice([200, 400]),
        is_uncontrolled=True,
    )


def filling(seed: int) -> Plan:
    """Return a plan of disks with little room: small writes fit, and no records; of some none, and
    some are read-only."""
    rng = random.Random(f"filling/{seed}")
    rare = {"kill": 0.003, "freeze": 0.004, "offline": 0.004, "metadata away": 0.002}
    return Plan(
        seed=seed,
        brokers=rng.choice([3, 3, 4]),
        partitions=rng.choice([1, 2]),
        min_isr=rng.choice([2, 1, 1]),
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(2, 4))),
        steps=rng.choice([1000, 2000]),
        call_faults=rng.choice([{}, {"slow": 0.01}, {"slow": 0.02, "lost": 0.02}]),
        events={
            "nearly full": rng.choice([0.005, 0.02]),
            "full": rng.choice([0.0, 0.01]),
            "read-only": rng.choice([0.0, 0.01]),
            **{name: rate for name, rate in rare.items() if rng.random() < 0.5},
        },
        controllers=rng.choice([0, 1, 2]),
        lag_ms=rng.choice([1000, 30_000]),
        session_ms=rng.choice([400, 3000]),
    )


def tidied(seed: int) -> Plan:
    """Return a plan of replicas' folders that are cleaned by processes which freeze and die at it,
    while leaders change and records are deleted."""
    rng = random.Random(f"tidied/{seed}")
    rare = {"kill": 0.004, "second driver": 0.004, "clock jump": 0.004}
    return Plan(
        seed=seed,
        partitions=rng.choice([1, 1, 2]),
        min_isr=2,
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(1, 3))),
        steps=rng.choice([800, 1500]),
        call_faults=rng.choice([{}, {"slow": 0.02}, {"failed": 0.02, "stale": 0.03}]),
        events={
            "freeze": rng.choice([0.004, 0.02]),
            "offline": 0.01,
            "roll back": 0.1,  # of disks that are offline
            **{name: rate for name, rate in rare.items() if rng.random() < 0.6},
        },
        twin_chance=rng.choice([0.0, 0.3]),
        lag_ms=rng.choice([60, 500, 2000]),
        session_ms=rng.choice([40, 100, 300]),
        retention_ms=rng.choice([None, 300]),
        skew_ms=rng.choice([0, 3_600_000]),
        sweep_ms=200,
        tidiers=rng.choice([1, 2]),
        orphan_bytes=rng.choice([0, 200, NO_BOUND]),
    )


def sole(seed: int) -> Plan:
    """Return a plan in which one client is alone: nobody else brings news of the roots that it can't
    reach, may not write to, or sleeps through the return of."""
    rng = random.Random(f"sole/{seed}")
    danger = rng.choice([{"nap": 0.02, "offline": 0.01}, {"denied": 0.01, "rejoin": 0.002}])
    return Plan(
        seed=seed,
        clients=("p1",),
        steps=rng.choice([800, 1500]),
        events=danger,
        controllers=0,
        replicators=0,
        lag_ms=30_000,
        session_ms=rng.choice([200, 400]),
        is_uncontrolled=True,
    )


def forged(seed: int) -> Plan:
    """Return a plan in which tables are rolled back while they serve, and changed by hand."""
    rng = random.Random(f"forged/{seed}")
    rare = {"kill": 0.002, "freeze": 0.004, "offline": 0.004, "rot": 0.001, "wipe": 0.001}
    return Plan(
        seed=seed,
        brokers=rng.choice([3, 3, 4]),
        partitions=rng.choice([1, 1, 2]),
        min_isr=2,
        clients=tuple(rng.choice([None, f"p{number}"]) for number in range(rng.randint(1, 3))),
        steps=rng.choice([800, 1500]),
        call_faults=rng.choice([{}, {"slow": 0.01}, {"slow": 0.02, "stale": 0.02}]),
        events={
            "forge": rng.choice([0.0, 0.005, 0.01]),
            "roll back live": rng.choice([0.005, 0.01]),
            **{name: rate for name, rate in rare.items() if rng.random() < 0.5},
        },
        twin_chance=rng.choice([0.0, 0.1]),
        replicators=rng.choice([1, 2]),
        lag_ms=rng.choice([200, 2000]),
        session_ms=rng.choice([200, 1500]),
        sweep_ms=200,
        verdict_ms=rng.choice([20, 300]),
    )


def retained(seed: int) -> Plan:
    """Return a plan in which records are deleted for their age and size, leaders change meanwhile,
    and the clocks of processes or those of disks are wrong, but not both.

    All clients have producers: an append without one is known by its files alone, and is made again
    if an unknown commit of it was deleted before it is looked for.
    """
    rng = random.Random(f"retained/{seed}")
    rare = {"kill": 0.004, "freeze": 0.01, "second driver": 0.004, "rot": 0.001, "wipe": 0.001}
    wrong = rng.choice([{}, {"clock jump": 0.05}, {"root clock jump": 0.05}])
    plan = Plan(
        seed=seed,
        partitions=rng.choice([1, 2]),
        clients=tuple(f"p{number}" for number in range(rng.randint(2, 3))),
        steps=rng.choice([800, 1500]),
        call_faults=rng.choice(
            [{}, {"slow": 0.02}, {"delayed": 0.03, "lost": 0.02, "stale": 0.03}]
        ),
        events={
            "offline": rng.choice([0.0, 0.01]),
            **wrong,
            **{name: rate for name, rate in rare.items() if rng.random() < 0.5},
        },
        twin_chance=rng.choice([0.0, 0.1]),
        snapshot_records=rng.choice([15, 1000]),
        session_ms=rng.choice([100, 300, 1500]),
        sweep_ms=200,
        retention_ms=rng.choice([300, 1000, 3000]),
        retention_bytes=rng.choice([-1, 600]),
    )
    if seed % 3:
        return plan
    losing = unclean(plan)
    return replace(losing, events=losing.events | wrong, retention_ms=100, retention_bytes=-1)
