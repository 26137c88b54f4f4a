"""The whole cluster in one process from one seed, ill-treated, healed and read back.

A failure prints its seed, its plan and its last decisions. ``pytest tests/simulation --seeds 20000 -n 2 --dist load`` is the long run.
"""

import json

import pytest

from tests.simulation.chunks import chunk_starts, missed, outcomes
from tests.simulation.conftest import CHUNK
from tests.simulation.faults.swarm_plans import looking, plan_of
from tests.simulation.simulation import Outcome

SEEDS_TO_MEET_ALL = 300
LOOKING_SEEDS = 40
LOOKING_CHUNK = 8
DECISIONS_SHOWN = 100

SOMETIMES = (
    "ISR expand",
    "ISR shrink",
    "another replica served a reader",
    "append acks=0",
    "append acks=1",
    "append acks=all",
    "append by a deposed leader",
    "append refused",
    "append split as before the topic grew",
    "append unknown",
    "append while the high watermark is frozen",
    "caught up, and all inspected",
    "cleaned log opened anew",
    "commit counted and cleaned",
    "commit put where others were",
    "commit: adopt",
    "commit: append",
    "commit: append_fetched",
    "damage found by a reader",
    "damaged source refused",
    "dedup hit",
    "delayed put found its place taken",
    "delayed put landed",
    "election",
    "election outside the ISR",
    "fault: asleep",
    "fault: blink",
    "fault: burst",
    "fault: clock jump",
    "fault: delayed",
    "fault: empty",
    "fault: failed",
    "fault: freeze",
    "fault: full",
    "fault: hung",
    "fault: kill",
    "fault: lose tables",
    "fault: lost",
    "fault: mend",
    "fault: metadata away",
    "fault: mistaken",
    "fault: offline",
    "fault: read-only",
    "fault: refused",
    "fault: restore",
    "fault: roll back",
    "fault: rot",
    "fault: second driver",
    "fault: resolved",
    "fault: slow",
    "fault: stale",
    "fault: sticky",
    "fault: unsaid",
    "fault: wipe",
    "hint of the sweep lost",
    "lease taken over",
    "mistaken inspection",
    "lost replica taken back",
    "offline partition",
    "partition added",
    "producer fenced",
    "replica lost",
    "replica created again",
    "request answered",
    "request asked for",
    "resync",
    "round without all inspected",
    "slice inspected",
    "snapshot written",
    "speculative twin",
    "stale inspection",
    "table removed",
    "task started again",
    "topic deleted",
    "truncation",
    "unclean generation",
    "reader told of an unclean election",
    "records lost by unclean elections",
    "unknown resolved as committed",
    "unknown resolved as conflict",
    "wiped root handled",
    "zombie lost its commit",
)
"""What must have occurred: a simulation in which it does not shows nothing about it."""

LOOKING = (
    "lease taken over",
    "look that shows nothing",
    "next commit found by a look",
    "next commit missed by a look",
    "request answered",
)


def failure_text(outcome: Outcome) -> str:
    last = "\n".join(" | ".join(each) for each in outcome.script[-DECISIONS_SHOWN:])
    return f"seed={outcome.plan.seed}: {outcome.message}\nplan: {outcome.plan}\n{last}"


def test_every_invariant_holds_after_every_effect(chunk, record_property):
    failed, met = outcomes(plan_of, *chunk)

    record_property("simulation", json.dumps(met))
    assert failed is None, failure_text(failed)


def test_everything_that_can_happen_happened():
    assert missed(plan_of, SOMETIMES, SEEDS_TO_MEET_ALL, CHUNK) == []


@pytest.mark.parametrize("first", chunk_starts(LOOKING_SEEDS, LOOKING_CHUNK))
def test_so_it_is_where_processes_look_for_a_next_commit_before_they_read(first):
    failed, _ = outcomes(looking, first, LOOKING_CHUNK)

    assert failed is None, failure_text(failed)


def test_looks_find_commits_miss_some_and_show_nothing():
    assert missed(looking, LOOKING, LOOKING_SEEDS, LOOKING_CHUNK) == []
