"""A rule that is switched off is seen to be missing: the checker is not blind."""

from dataclasses import replace

import pytest

from tests.simulation.faults.aimed_plans import retried
from tests.simulation.faults.swarm_plans import plan_of
from tests.simulation.mutants.protocol_mutants import MUTANTS
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.plan import Plan
from tests.simulation.simulation import simulate

SEEDS_MAX = 40


def eager(seed: int) -> Plan:
    """Return a plan of many elections and many zombies, and few other faults."""
    return replace(
        plan_of(seed),
        brokers=3,
        partitions=1,
        min_isr=2 if seed % 2 else 1,
        clients=(None, "p1", None),
        steps=1500,
        controllers=2,
        replicators=2,
        lag_ms=500,
        events={"offline": 0.02, "freeze": 0.01, "kill": 0.004, "second driver": 0.004},
        call_faults={"slow": 0.02, "stale": 0.02},
    )


def hasty(seed: int) -> Plan:
    """Return a plan of leaders that hardly last, with appends that outlive them."""
    return replace(
        plan_of(seed),
        brokers=3,
        partitions=1,
        min_isr=1,
        clients=(None, None, "p1", None, None),
        steps=1500,
        controllers=2,
        replicators=2,
        lag_ms=60,
        session_ms=40,
        events={"offline": 0.02, "freeze": 0.01},
        call_faults={"slow": 0.05},
        is_unclean=False,
    )


def damaged(seed: int) -> Plan:
    """Return a plan of files that are damaged and put right, and of inspections that fail in passing."""
    return replace(
        plan_of(seed),
        brokers=3,
        partitions=1,
        min_isr=2,
        clients=(None,),
        steps=1500,
        controllers=2,
        replicators=2,
        lag_ms=60,
        session_ms=40,
        verdict_ms=20,
        events={"rot": 0.01, "mend": 0.05, "offline": 0.02, "blink": 0.01},
        call_faults={"failed": 0.02, "mistaken": 0.02},
        is_unclean=True,
    )


def hanging(seed: int) -> Plan:
    """Return a plan of commits that hang and land late, on disks that come and go."""
    return replace(
        plan_of(seed),
        brokers=3,
        partitions=1,
        min_isr=2,
        clients=(None, None, None),
        steps=2000,
        controllers=2,
        replicators=2,
        lag_ms=300,
        session_ms=100,
        events={"offline": 0.006},
        call_faults={"delayed": 0.3, "hung": 0.003},
        is_unclean=False,
    )


def mistaken(seed: int) -> Plan:
    """Return a plan of inspections that fail in passing: a second one would find a sound replica."""
    return replace(
        plan_of(seed),
        brokers=3,
        partitions=1,
        min_isr=2,
        clients=("p0", "p1", None),
        steps=1500,
        controllers=2,
        replicators=1,
        lag_ms=2000,
        session_ms=1500,
        verdict_ms=20,
        sweep_ms=1000,
        events={"freeze": 0.002},
        call_faults={"mistaken": 0.05},
        is_unclean=False,
    )


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


MAKERS = (plan_of, eager, hasty, damaged, hanging, mistaken)
SORTS = len(MAKERS)


def plans() -> list[Plan]:
    """Return plans to try in turn, of all sorts."""
    return [make(seed) for seed in range(SEEDS_MAX) for make in MAKERS]


RARE = {
    "an append is acknowledged by its chain digest, not by its offset": eager(62),
    "a round counts no inspection that is newer than its image": dozing(479),
    "a replica is taken back only with all of its files": damaged(15),
    "a commit that was left behind may land: it is never called not written": hanging(42),
    "a retry is searched in the very log that is committed to": eager(1),
    "a lost replica's table stays until its new incarnation is in sync": plan_of(5),
    "what was not inspected is never reported as caught up": hasty(1),
    "a replica is lost only when a second inspection finds it bad again": mistaken(0),
    "below the minimum of replicas in sync nothing is committed": hanging(0),
    "all partitions are looked at for an earlier try before the first commit": retried(2),
}
"""Plans that show a rule which the others show late; they are tried first."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(mutant):
    first = [RARE[mutant.rule]] if mutant.rule in RARE else []

    assert mutant.invariant in seen_without(mutant, [*first, *plans()])


def test_with_all_rules_a_plan_of_each_sort_is_clean():
    tried = [*plans()[:SORTS], retried(0)]

    assert [simulate(plan).violation for plan in tried] == [None] * len(tried)


@pytest.mark.long
def test_with_all_rules_the_plans_that_show_a_missing_one_late_are_clean():
    tried = [each for each in RARE.values() if each not in plans()[:SORTS]]

    assert [simulate(plan).violation for plan in tried] == [None] * len(tried)


@pytest.mark.long
def test_with_all_rules_more_of_the_plans_are_clean():
    tried = plans()[SORTS : 3 * SORTS]

    assert [simulate(plan).violation for plan in tried] == [None] * len(tried)
