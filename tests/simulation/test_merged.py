"""Each replica merges its files, whatever goes wrong meanwhile: nothing follows for anybody."""

from collections import Counter
from functools import cache

import pytest

from tests.simulation.plan import merged
from tests.simulation.simulation import Outcome, simulate
from tests.simulation.test_simulation import failure_text

SEEDS = 20
SEEDS_MORE = 300
CHUNK = 10

SOMETIMES = (
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
)


@cache
def outcomes(first: int) -> tuple[Outcome | None, Counter[str]]:
    """Return the first outcome of a chunk of seeds that fails, and what all of them met."""
    met: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        outcome = simulate(merged(seed))
        met.update(outcome.seen)
        if outcome.violation is not None:
            return outcome, met
    return None, met


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_a_merge_changes_nothing_that_anybody_sees(first):
    failed, _ = outcomes(first)

    assert failed is None, failure_text(failed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, SEEDS_MORE, CHUNK))
def test_a_merge_changes_nothing_with_more_seeds_either(first):
    failed, _ = outcomes(first)

    assert failed is None, failure_text(failed)


def test_every_event_that_a_plan_allows_happened():
    met: Counter[str] = Counter()
    for first in range(0, SEEDS, CHUNK):
        met.update(outcomes(first)[1])

    assert [name for name in SOMETIMES if not met[name]] == []
