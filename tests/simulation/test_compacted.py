"""A compacted topic, whatever goes wrong meanwhile: every replica keeps what the whole log and the
decisions say, and no reader goes back to an older value."""

import pytest

from tests.simulation.chunks import missed, outcomes
from tests.simulation.compacted_plan import compacted
from tests.simulation.mutants.compaction_mutants import COMPACTION_MUTANTS
from tests.simulation.mutants.seeing import seen_without
from tests.simulation.test_simulation import failure_text

SEEDS = 14
SEEDS_TO_MEET_ALL = 70
SEEDS_MORE = 340
CHUNK = 7
MUTANT_SEEDS_MAX = 100

SOMETIMES = (
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
)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_is_kept_is_a_function_of_the_log_and_the_decisions(first):
    failed, _ = outcomes(compacted, first, CHUNK)

    assert failed is None, failure_text(failed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_MORE, CHUNK))
def test_it_is_so_with_more_seeds(first):
    failed, _ = outcomes(compacted, first, CHUNK)

    assert failed is None, failure_text(failed)


def test_every_event_that_a_plan_allows_happened():
    assert missed(compacted, SOMETIMES, SEEDS_TO_MEET_ALL, CHUNK) == []


@pytest.mark.parametrize("mutant", COMPACTION_MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_missing_rule_is_seen_by_the_invariant_that_it_keeps(mutant):
    seeds = range(mutant.seed, mutant.seed + MUTANT_SEEDS_MAX)

    assert mutant.invariant in seen_without(mutant, map(compacted, seeds))
