"""Plans that aim at one subject each: every seed is clean, and each rule of the subject that is switched
off is seen to be missing by the invariant that it keeps."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from tests.simulation.faults.aimed_plans import (
    filling,
    forged,
    retained,
    sole,
    tidied,
    uncontrolled,
)
from tests.simulation.faults.compacted_plans import compacted
from tests.simulation.faults.expiring_plans import ahead, expiring
from tests.simulation.faults.merged_plans import clients_of_kafka, merged, restamped
from tests.simulation.faults.swarm_plans import (
    damaged,
    dozing,
    eager,
    hanging,
    plan_of,
    retried,
)
from tests.simulation.mutants.append_pass_mutants import (
    FILLING_MUTANTS,
    SOLE_MUTANTS,
    UNCONTROLLED_MUTANTS,
)
from tests.simulation.mutants.cleaning_mutants import CLEANING_MUTANTS
from tests.simulation.mutants.client_mutants import CLIENT_MUTANTS
from tests.simulation.mutants.compaction_mutants import COMPACTION_MUTANTS
from tests.simulation.mutants.expiring_mutants import EXPIRING_MUTANTS
from tests.simulation.mutants.forging_mutants import FORGING_MUTANTS
from tests.simulation.mutants.merging_mutants import MERGING_MUTANTS, RESTAMPING_MUTANTS
from tests.simulation.mutants.protocol_mutants import MUTANTS as PROTOCOL_MUTANTS
from tests.simulation.mutants.protocol_mutants import Mutant
from tests.simulation.mutants.retention_mutants import RETENTION_MUTANTS
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.plan import Plan
from tests.simulation.simulation import simulate
from tests.simulation.test_simulation import check_clean

MUTANT_SEEDS_MAX = 100
CHUNK_MORE = 35
"""Seeds a test with --long."""


class Aim(NamedTuple):
    """A kind of plan.

    Attributes:
        promise: What holds in all of them, in words.
        plan: Makes them.
        seeds: So many are run by default.
        seeds_long: With --long so many.
        mutants: Rules that are seen to be missing.
    """

    promise: str
    plan: Callable[[int], Plan]
    seeds: int
    seeds_long: int
    mutants: Sequence[Mutant] = ()


# fmt: off
AIMS = (
    Aim("the swarm's dangers are told by name",                               plan_of,      1, 1, PROTOCOL_MUTANTS),
    Aim("many elections, many zombies",                                       eager,        1, 20),
    Aim("files that are damaged and put right",                               damaged,      1, 20),
    Aim("commits that hang and land late",                                    hanging,      1, 20),
    Aim("rounds that sleep while a leader goes",                              dozing,       1, 20),
    Aim("retries with other records",                                         retried,      1, 20),
    Aim("what is kept is a function of the log and the decisions, and no reader goes back", compacted, 5, 340, COMPACTION_MUTANTS),
    Aim("only what is silent expires, and nothing comes back twice",          expiring,     5, 300, EXPIRING_MUTANTS),
    Aim("a clock that is hours or years ahead gives nobody its time and has nothing go", ahead, 3, 300),
    Aim("disks without room lose nothing and hold up nobody",                 filling,      5, 100, FILLING_MUTANTS),
    Aim("a log that was changed by hand is neither read nor copied nor elected", forged,    5, 45, FORGING_MUTANTS),
    Aim("a merge changes nothing that anybody sees",                          merged,       4, 300, MERGING_MUTANTS),
    Aim("sequences of Kafka's clients follow each other, and no batch stands twice", clients_of_kafka, 4, 300, CLIENT_MUTANTS),
    Aim("files with timestamps of one kind are merged, and nobody sees it",   restamped,    2, 4, RESTAMPING_MUTANTS),
    Aim("only what is too old or too much is deleted, whatever clocks say",   retained,     5, 40, RETENTION_MUTANTS),
    Aim("a cleaner that freezes, dies or is late deletes nothing that is named", tidied,    5, 30, CLEANING_MUTANTS),
    Aim("what appends decide has its reasons and lets them end",              uncontrolled, 5, 100, UNCONTROLLED_MUTANTS),
    Aim("a sole process may sleep and lack permission, and calls no broker silent for it", sole, 5, 40, SOLE_MUTANTS),
)
# fmt: on

MUTANTS = [
    pytest.param(mutant.plan or aim.plan, mutant, id=mutant.rule)
    for aim in AIMS
    for mutant in aim.mutants
]


def seen(plan: Callable[[int], Plan], mutant: Mutant) -> dict[str, Plan]:
    seeds = range(mutant.seed, mutant.seed + MUTANT_SEEDS_MAX)
    return seen_without(mutant, map(plan, seeds))


@pytest.mark.parametrize("aim", AIMS, ids=lambda aim: aim.promise)
def test_every_invariant_holds(aim):
    check_clean(aim.plan, range(aim.seeds))


@pytest.mark.long
@pytest.mark.parametrize(
    "aim, first",
    [
        pytest.param(aim, first, id=f"{aim.promise}-{first}")
        for aim in AIMS
        for first in range(aim.seeds, aim.seeds_long, CHUNK_MORE)
    ],
)
def test_every_invariant_holds_with_more_seeds(aim, first):
    check_clean(aim.plan, range(first, min(first + CHUNK_MORE, aim.seeds_long)))


@pytest.mark.parametrize("plan, mutant", MUTANTS)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(plan, mutant):
    assert mutant.invariant in seen(plan, mutant)


@pytest.mark.long
@pytest.mark.parametrize("plan, mutant", [each for each in MUTANTS if each.values[1].plan])
def test_with_all_rules_the_plan_that_shows_a_missing_one_is_clean(plan, mutant):
    assert simulate(seen(plan, mutant)[mutant.invariant]).violation is None


@pytest.mark.parametrize(
    "plan, seed",
    [
        pytest.param(
            forged, 704, id="a follower whose leader was changed by hand since the mark rose is cut"
        ),
        pytest.param(
            forged,
            1134,
            id="one lost for another log than its leader's, with whole files, is made again",
        ),
        pytest.param(
            plan_of, 5037, id="an unclean leader that a stale listing showed empty is made again"
        ),
    ],
)
def test_a_replica_with_another_log_is_cut_or_created_again(plan, seed):
    check_clean(plan, [seed])
