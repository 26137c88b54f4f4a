"""Plans in which each replica merges its files, meanwhile and after whatever goes wrong."""

import random
from dataclasses import replace

from tests.simulation.faults.aimed_plans import retained, tidied
from tests.simulation.faults.swarm_plans import plan_of
from tests.simulation.plan import Plan


def merged(seed: int) -> Plan:
    """Return a plan in which each replica merges its files: one of the other kinds, in which leaders
    last long enough, or one of disks that go back, or of elections that lose records."""
    rng = random.Random(f"merged/{seed}")
    plan = rng.choice([plan_of, plan_of, retained, tidied, _going_back, _losing])(seed)
    return replace(
        plan,
        steps=plan.steps + 1500,
        events={name: min(rate, 0.02) for name, rate in plan.events.items()}
        | {"offline": min(plan.events.get("offline", 0.0), 0.006)},
        lag_ms=max(plan.lag_ms, 200),
        session_ms=max(plan.session_ms, 200),
        tidiers=rng.choice([1, 2]),
        merge_fan_in=rng.choice([2, 2, 2, 3]),
        merge_lag=rng.choice([0, 0, 0, 1]),
    )


def clients_of_kafka(seed: int) -> Plan:
    """Return a plan of producers of Kafka's protocol, beside others, with and without merges."""
    plan = (merged if seed % 2 else plan_of)(seed)
    return replace(plan, clients=("kafka/0000000a", None, "kafka/0000000b"), changes_retries=False)


def _going_back(seed: int) -> Plan:
    rng = random.Random(f"going back/{seed}")
    return Plan(
        seed=seed,
        clients=(None, "p1", rng.choice([None, "p2"])),
        steps=1000,
        call_faults=rng.choice([{}, {"slow": 0.03}, {"unsaid": 0.03, "stale": 0.03}]),
        events={
            "offline": 0.006,
            "freeze": 0.01,
            "roll back": 0.02,
            "roll back live": 0.003,
        },
        replicators=rng.choice([1, 2]),
        fetch_bytes=rng.choice([100, 1_000_000]),
        lag_ms=rng.choice([200, 1000]),
        session_ms=rng.choice([200, 500]),
        verdict_ms=rng.choice([20, 300]),
    )


def _losing(seed: int) -> Plan:
    rng = random.Random(f"losing/{seed}")
    return Plan(
        seed=seed,
        min_isr=1,
        clients=("p0", "p1", None),
        events={
            "offline": 0.006,
            "empty": rng.choice([0.0, 0.004]),
            "rot": 0.004,
            "wipe": 0.003,
            "roll back": 0.02,
        },
        replicators=rng.choice([1, 2]),
        verdict_ms=20,
        is_unclean=True,
    )


def restamped(seed: int) -> Plan:
    """Return a plan of a topic whose message.timestamp.type changes."""
    return replace(
        _eager(seed),
        clients=(None, "p1"),
        call_faults={"slow": 0.02},
        events={"freeze": 0.01, "offline": 0.004},
        fetch_bytes=100,
        is_restamped=True,
    )


def _eager(seed: int) -> Plan:
    """Return a plan in which all that is committed is merged at once."""
    return Plan(seed=seed, steps=2500, replicators=2, tidiers=2, merge_fan_in=2, merge_lag=0)
