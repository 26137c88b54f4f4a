"""Plans in which producers and groups fall silent, for longer than what is known of them is kept."""

import random
from dataclasses import replace

from tests.simulation.plan import Expiring, Plan


def expiring(seed: int) -> Plan:
    """Return a plan in which producer ids and groups' offsets expire, headers are merged and
    deleted meanwhile."""
    rng = random.Random(f"expiring/{seed}")
    wrong = rng.choice([{}, {"controller clock jump": 0.02}, {"root clock jump": 0.02}])
    rare = {"kill": 0.004, "freeze": 0.006, "second driver": 0.004, "wipe": 0.001}
    plan = Plan(
        seed=seed,
        partitions=rng.choice([1, 1, 2]),
        clients=tuple(f"p{number}" for number in range(rng.randint(2, 3))),
        steps=rng.choice([1500, 2500]),
        call_faults=rng.choice(
            [{}, {"slow": 0.02}, {"unsaid": 0.04}, {"delayed": 0.03, "lost": 0.02, "failed": 0.02}]
        ),
        events={
            "offline": rng.choice([0.0, 0.004]),
            **wrong,
            **{name: rate for name, rate in rare.items() if rng.random() < 0.6},
        },
        twin_chance=rng.choice([0.0, 0.2]),
        snapshot_records=rng.choice([15, 1000]),
        lag_ms=rng.choice([200, 1000]),
        session_ms=rng.choice([200, 500]),
        sweep_ms=200,
        verdict_ms=rng.choice([20, 300]),
        retention_ms=rng.choice([None, 600, 2000]),
        tidiers=1,
        merge_fan_in=2,
        merge_lag=0,
        expiring=Expiring(
            producers_ms=rng.choice([150, 400, 1000]), offsets_ms=rng.choice([300, 1000])
        ),
    )
    if seed % 4 == 1:
        return replace(
            plan,
            min_isr=1,
            events={"offline": 0.012, "empty": 0.004, "wipe": 0.002},
            verdict_ms=20,
            is_unclean=True,
        )
    if seed % 4 == 2:
        return replace(plan, events=plan.events | {"roll back": 0.02, "offline": 0.006})
    return plan


def ahead(seed: int) -> Plan:
    """Return a plan in which clocks of processes go hours or years ahead, of those too that decide
    what is too old."""
    rng = random.Random(f"ahead/{seed}")
    plan = expiring(seed)
    events = {name: rate for name, rate in plan.events.items() if "clock" not in name}
    return replace(
        plan,
        events=events | {"clock far ahead": 0.01},
        clock_ahead_ms=rng.choice([50, 500, 5000]),
        retention_ms=rng.choice([600, 2000]),
    )
