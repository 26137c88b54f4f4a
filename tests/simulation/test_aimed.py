"""Plans that aim at one subject each: every seed is clean, what they aim at occurs, and each rule of
the subject that is switched off is seen to be missing by the invariant that it keeps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.simulation.chunks import chunk_starts, missed, outcomes
from tests.simulation.compacted_plan import compacted
from tests.simulation.faults.aimed_plans import (
    filling,
    forged,
    remade,
    retained,
    sole,
    tidied,
    uncontrolled,
)
from tests.simulation.faults.expiring_plans import ahead, behind, expiring, late
from tests.simulation.faults.merged_plans import heirs, merged, parted, restamped, unanswered
from tests.simulation.mutants.append_pass_mutants import (
    FILLING_MUTANTS,
    SOLE_MUTANTS,
    UNCONTROLLED_MUTANTS,
)
from tests.simulation.mutants.cleaning_mutants import CLEANING_MUTANTS
from tests.simulation.mutants.compaction_mutants import COMPACTION_MUTANTS
from tests.simulation.mutants.expiring_mutants import EXPIRING_MUTANTS
from tests.simulation.mutants.forging_mutants import FORGING_MUTANTS
from tests.simulation.mutants.merging_mutants import MERGING_MUTANTS, RESTAMPING_MUTANTS
from tests.simulation.mutants.protocol_mutants import RECREATED_MUTANTS, Mutant
from tests.simulation.mutants.retention_mutants import RETENTION_MUTANTS
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.plan import Plan
from tests.simulation.simulation import simulate
from tests.simulation.test_simulation import failure_text

MUTANT_SEEDS_MAX = 100
CHUNK_MORE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A kind of plan, and what it is for.

    Attributes:
        promise: What holds in all of them, in words.
        plan: Makes them.
        seeds: So many are run; one chunk of them by default, and the others with --long.
        seeds_more: With --long so many.
        chunk: So many at once.
        quick: Where the chunk that is run by default begins: it meets all of `sometimes`.
        sometimes: What must have occurred, lest they show nothing about it.
        seeds_to_meet: Within so many seeds.
        mutants: Rules that are seen to be missing.
    """

    promise: str
    plan: Callable[[int], Plan]
    seeds: int
    seeds_more: int
    chunk: int
    quick: int = 0
    sometimes: Sequence[str] = ()
    seeds_to_meet: int = 0
    mutants: Sequence[Mutant] = ()


AIMS = (
    Aim(
        promise="what is kept is a function of the log and the decisions, and no reader goes back",
        plan=compacted,
        seeds=28,
        seeds_more=340,
        chunk=14,
        quick=14,
        sometimes=(
            "a reader has come to the end",
            "changes read",
            "commit: compact",
            "commit: merge",
            "compaction decided",
            "cut refused",
            "election",
            "election outside the ISR",
            "fault: freeze",
            "fault: kill",
            "fault: second driver",
            "fault: wipe",
            "finished content",
            "keyless record compacted away",
            "keyless record refused",
            "look for compaction refused",
            "records compacted away",
            "replica created again",
            "speculative twin",
            "tombstone compacted away",
            "tombstones decided to go",
            "unclean generation",
        ),
        seeds_to_meet=70,
        mutants=COMPACTION_MUTANTS,
    ),
    Aim(
        promise="only what is silent expires, and nothing comes back twice",
        plan=expiring,
        seeds=20,
        seeds_more=300,
        chunk=10,
        quick=10,
        sometimes=(
            "producer id expired",
            "group's offset expired",
            "group saved where it is",
            "expired id refused",
            "expired id came back",
            "dedup hit",
            "commit: merge",
            "commit: advance_log_start",
            "deleted by retention",
            "fault: controller clock jump",
            "fault: root clock jump",
            "fault: lose producers",
            "late producers file",
            "replica lost",
            "election",
            "unclean generation",
        ),
        seeds_to_meet=30,
        mutants=EXPIRING_MUTANTS,
    ),
    Aim(
        promise="a client's clock that is behind has nobody expire",
        plan=behind,
        seeds=5,
        seeds_more=300,
        chunk=5,
        sometimes=("fault: client clock jump", "fault: member clock jump"),
        seeds_to_meet=5,
    ),
    Aim(
        promise="a clock that is hours or years ahead gives nobody its time and has nothing go",
        plan=ahead,
        seeds=5,
        seeds_more=300,
        chunk=5,
        sometimes=("fault: clock far ahead", "deleted by retention", "producer id expired"),
        seeds_to_meet=5,
    ),
    Aim(
        promise="processes that begin late and far behind bring nothing back",
        plan=late,
        seeds=1,
        seeds_more=300,
        chunk=1,
        sometimes=("commit: merge", "producer id expired"),
        seeds_to_meet=1,
    ),
    Aim(
        promise="disks without room lose nothing and hold up nobody",
        plan=filling,
        seeds=10,
        seeds_more=100,
        chunk=5,
        sometimes=(
            "append without a disk",
            "fault: full",
            "fault: nearly full",
            "fault: read-only",
            "fenced for want of room",
            "refused write noted",
        ),
        seeds_to_meet=100,
        mutants=FILLING_MUTANTS,
    ),
    Aim(
        promise="a log that was changed by hand is neither read nor copied nor elected",
        plan=forged,
        seeds=15,
        seeds_more=45,
        chunk=5,
        quick=10,
        sometimes=(
            "fault: forge",
            "fault: roll back live",
            "leader epoch raised where logs diverge",
            "replica lost",
            "replica created again",
            "truncation",
        ),
        seeds_to_meet=45,
        mutants=FORGING_MUTANTS,
    ),
    Aim(
        promise="a merge changes nothing that anybody sees",
        plan=merged,
        seeds=42,
        seeds_more=300,
        chunk=7,
        quick=35,
        sometimes=(
            "commit: merge",
            "commit: adopt",
            "commit: append_fetched",
            "commit: truncate_fully_and_start_at",
            "part of a merged segment fetched",
            "borders read",
            "dedup hit",
            "file cleaned",
            "truncation",
            "election",
            "fault: freeze",
            "speculative twin",
        ),
        seeds_to_meet=100,
        mutants=MERGING_MUTANTS,
    ),
    Aim(
        promise="nor do merges of producers",
        plan=heirs,
        seeds=1,
        seeds_more=60,
        chunk=1,
    ),
    Aim(
        promise="nor do merges without an answer",
        plan=unanswered,
        seeds=1,
        seeds_more=60,
        chunk=1,
    ),
    Aim(
        promise="nor do merges of replicas that part",
        plan=parted,
        seeds=1,
        seeds_more=60,
        chunk=1,
    ),
    Aim(
        promise="files with timestamps of one kind are merged, and nobody sees it",
        plan=restamped,
        seeds=4,
        seeds_more=4,
        chunk=4,
        sometimes=(
            "commit: merge",
            "part of a merged segment fetched",
            "records stamped by CreateTime",
            "records stamped by LogAppendTime",
        ),
        seeds_to_meet=4,
        mutants=RESTAMPING_MUTANTS,
    ),
    Aim(
        promise="a process with an open cluster changes nothing in another at its path",
        plan=remade,
        seeds=12,
        seeds_more=60,
        chunk=12,
        sometimes=(
            "another cluster noticed",
            "append acks=all",
            "fault: torn",
            "fault: freeze",
            "fault: make again",
        ),
        seeds_to_meet=60,
        mutants=RECREATED_MUTANTS,
    ),
    Aim(
        promise="only what is too old or too much is deleted, whatever clocks say",
        plan=retained,
        seeds=40,
        seeds_more=40,
        chunk=5,
        quick=35,
        sometimes=(
            "deleted by retention",
            "deleted for its size",
            "leader looked at",
            "leader's log refused a look",
            "fault: clock jump",
            "fault: root clock jump",
            "election",
            "unclean generation",
            "commit: advance_log_start",
            "commit: truncate_fully_and_start_at",
        ),
        seeds_to_meet=40,
        mutants=RETENTION_MUTANTS,
    ),
    Aim(
        promise="a cleaner that freezes, dies or is late deletes nothing that is named",
        plan=tidied,
        seeds=6,
        seeds_more=30,
        chunk=6,
        sometimes=(
            "file cleaned",
            "orphans seen",
            "leader epoch raised where logs diverge",  # or over orphans: of these plans none diverges
            "speculative twin",
            "fault: freeze",
            "fault: second driver",
            "fault: kill",
            "fault: roll back",
            "election",
            "commit: advance_log_start",
        ),
        seeds_to_meet=30,
        mutants=CLEANING_MUTANTS,
    ),
    Aim(
        promise="what appends decide has its reasons and lets them end",
        plan=uncontrolled,
        seeds=20,
        seeds_more=100,
        chunk=5,
        quick=15,
        sometimes=(
            "append without a disk",
            "fault: cut off",
            "fault: denied",
            "fault: freeze",
            "fault: offline",
            "fault: rejoin",
            "append's pass",
            "append's pass after a dead controller",
        ),
        seeds_to_meet=60,
        mutants=UNCONTROLLED_MUTANTS,
    ),
    Aim(
        promise="a sole process may sleep and lack permission, and calls no broker silent for it",
        plan=sole,
        seeds=40,
        seeds_more=40,
        chunk=5,
        sometimes=("append without a disk", "fault: denied", "fault: nap", "append's pass"),
        seeds_to_meet=40,
        mutants=SOLE_MUTANTS,
    ),
)

MUTANTS = [
    pytest.param(mutant.plan or aim.plan, mutant, id=mutant.rule)
    for aim in AIMS
    for mutant in aim.mutants
]


def seen(plan: Callable[[int], Plan], mutant: Mutant) -> dict[str, Plan]:
    seeds = range(mutant.seed, mutant.seed + MUTANT_SEEDS_MAX)
    return seen_without(mutant, map(plan, seeds))


@pytest.mark.parametrize(
    "aim, first",
    [
        pytest.param(aim, *each.values, marks=each.marks, id=f"{aim.promise}-{each.values[0]}")
        for aim in AIMS
        for each in chunk_starts(aim.seeds, aim.chunk, quick=aim.quick)
    ],
)
def test_every_invariant_holds(aim, first):
    failed, _ = outcomes(aim.plan, first, aim.chunk)

    assert failed is None, failure_text(failed)


@pytest.mark.long
@pytest.mark.parametrize(
    "aim, first",
    [
        pytest.param(aim, first, id=f"{aim.promise}-{first}")
        for aim in AIMS
        for first in range(aim.seeds, aim.seeds_more, CHUNK_MORE)
    ],
)
def test_every_invariant_holds_with_more_seeds(aim, first):
    failed, _ = outcomes(aim.plan, first, CHUNK_MORE)

    assert failed is None, failure_text(failed)


@pytest.mark.parametrize(
    "aim", [each for each in AIMS if each.sometimes], ids=lambda aim: aim.promise
)
def test_every_event_that_a_plan_aims_at_happened(aim):
    assert missed(aim.plan, aim.sometimes, aim.seeds_to_meet, aim.chunk, quick=aim.quick) == []


@pytest.mark.parametrize("plan, mutant", MUTANTS)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(plan, mutant):
    assert mutant.invariant in seen(plan, mutant)


@pytest.mark.long
@pytest.mark.parametrize("plan, mutant", [each for each in MUTANTS if each.values[1].plan])
def test_with_all_rules_the_plan_that_shows_a_missing_one_is_clean(plan, mutant):
    assert simulate(seen(plan, mutant)[mutant.invariant]).violation is None


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(704, id="its leader was changed by hand since the high watermark rose"),
        pytest.param(
            1134, id="it was lost for another log than its leader's, and its files are whole"
        ),
    ],
)
def test_a_follower_of_a_changed_leader_is_cut_or_created_again(seed):
    outcome = simulate(forged(seed))

    assert outcome.violation is None, failure_text(outcome)
