"""Plans of a compacted topic: how it is compacted, and what goes wrong meanwhile."""

import random
from dataclasses import replace

from tests.simulation.plan import Compacting, Plan


def compacted(seed: int) -> Plan:
    """Return a plan of a compacted topic: processes freeze and die while they decide and rewrite,
    leaders change, some of them uncleanly, followers fall behind and replicas are lost."""
    rng = random.Random(f"compacted/{seed}")
    rare = {"kill": 0.004, "freeze": 0.01, "second driver": 0.004, "wipe": 0.001, "rot": 0.001}
    plan = Plan(
        seed=seed,
        brokers=rng.choice([3, 3, 3, 4]),
        clients=tuple(rng.choice([None, "p", "p"]) and f"p{n}" for n in range(rng.randint(2, 3))),
        steps=rng.choice([1500, 2500]),
        call_faults=rng.choice(
            [{}, {"slow": 0.02}, {"delayed": 0.03, "lost": 0.02, "stale": 0.03}, {"unsaid": 0.04}]
        ),
        events={
            "offline": rng.choice([0.0, 0.004, 0.01]),
            **{name: rate for name, rate in rare.items() if rng.random() < 0.5},
        },
        twin_chance=rng.choice([0.0, 0.2]),
        snapshot_records=rng.choice([15, 1000]),
        fetch_bytes=rng.choice([100, 400, 1_000_000]),
        lag_ms=rng.choice([100, 300, 2000]),
        session_ms=rng.choice([100, 300, 1500]),
        sweep_ms=200,
        tidiers=rng.choice([1, 2]),
        merge_fan_in=rng.choice([None, None, 2]),
        merge_lag=0,
        compaction=Compacting(
            settings={
                "min.cleanable.dirty.ratio": rng.choice([0, 0, 0.3]),
                "delete.retention.ms": rng.choice([100, 300, 1000]),
                "min.compaction.lag.ms": rng.choice([0, 0, 200]),
                "max.compaction.lag.ms": rng.choice([500, 10**9]),
                "log.cleaner.backoff.ms": 10,
            },
            policy=rng.choice(["compact", "compact,delete"]),
            keys_at_once=rng.choice([1, 3, 1000]),
            group_bytes=rng.choice([100, 400, 10**6]),
            is_later=rng.random() < 0.3,
        ),
    )
    if seed % 4 == 1:
        return replace(
            plan,
            brokers=3,
            min_isr=1,
            events={"offline": 0.02, "empty": 0.006, "wipe": 0.003, "freeze": 0.004},
            verdict_ms=20,
            is_unclean=True,
        )
    if seed % 4 == 2:
        return replace(plan, events=plan.events | {"roll back": 0.02})
    return lagging(plan) if seed % 8 == 3 else plan


def lagging(plan: Plan) -> Plan:
    """Return a plan of replicas and readers that are away for longer than tombstones stay, and of
    groups so small that those who come back find a border where they were."""
    compacting = plan.compaction
    assert compacting is not None
    soon = {"delete.retention.ms": 100, "min.cleanable.dirty.ratio": 0, "min.compaction.lag.ms": 0}
    return replace(
        plan,
        brokers=3,
        min_isr=1,
        events={"offline": 0.02, "freeze": 0.02},
        lag_ms=100,
        session_ms=100,
        merge_fan_in=None,
        compaction=replace(compacting, settings=compacting.settings | soon, group_bytes=100),
    )
