"""Sweeps that open no table in which nothing happens, while disks lose what they have."""

from collections import Counter

from kafka_on_spark.service.replicate import quiet_partitions
from tests.simulation.chunks import outcomes
from tests.simulation.faults.aimed_plans import quiet
from tests.simulation.mutants.protocol_mutants import Mutant
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.test_simulation import failure_text

SEEDS = 8
MUTANT_SEEDS_MAX = 40
SOMETIMES = ("idle replica looked at", "caught up, and all inspected", "slice inspected")


def _seen_before(seen, *now, **named):
    return seen is not None


UNLOOKED = Mutant(
    "a replica counts as inspected by its newest commit only if that is the one that was read",
    ((quiet_partitions, "is_quiet", _seen_before),),
    invariant="I24 inspected in time",
)


def test_what_is_idle_is_looked_at_and_what_is_lost_is_found():
    failed, met = outcomes(quiet, 0, SEEDS)

    assert failed is None, failure_text(failed)
    met = Counter(met)
    assert [name for name in SOMETIMES if not met[name]] == []


def test_without_the_look_at_the_newest_commit_a_replica_is_not_inspected():
    assert UNLOOKED.invariant in seen_without(UNLOOKED, map(quiet, range(MUTANT_SEEDS_MAX)))
