"""Lives of a compacted log: no key's last value is missing, none comes back, replicas are equal.

And each rule is needed: with it switched off, a short life breaks an invariant.
"""

import contextlib
import random
from dataclasses import replace

import pytest

from kafka_on_spark.controller import compaction as decisions
from kafka_on_spark.log import compaction, read_order
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.metadata.partition import Compaction
from tests.log.cut_reader import BrokenError, ImpossibleError
from tests.log.model import Log
from tests.log.model_checks import check
from tests.log.script import run

STEPS = 150
LIVES = 100
KEYS = tuple(b"abcdef"[i : i + 1] for i in range(6))
WEIGHTS = {
    "append": 20,
    "fetch": 40,
    "fetch_whole": 10,
    "advance": 20,
    "decide": 15,
    "apply": 40,
    "wait": 6,
    "join": 15,
    "leave": 3,
    "elect": 4,
    "lose": 1,
    "read": 60,
}


def step(log: Log, dice: random.Random) -> None:
    number = dice.choice((1, 2, 3))
    kind = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    if kind == "append":
        count = dice.choice((1, 1, 2))
        log.append(*((dice.choice(KEYS), dice.random() < 0.3) for _ in range(count)))
    elif kind == "decide":
        log.decide(sees_others=dice.random() < 0.5)
    elif kind == "elect" and dice.random() < 0.2:
        log.elect_uncleanly(number)
    elif kind in ("advance", "wait"):
        getattr(log, kind)()
    else:
        getattr(log, kind)(number)


def test_in_random_lives_every_replica_that_counts_has_the_last_value_of_each_key():
    seen: set[str] = set()
    for seed in range(LIVES):
        dice, log = random.Random(seed), Log(keys_max=seed % 4 + 2 if seed % 2 else None)
        try:
            for _ in range(STEPS):
                step(log, dice)
                check(log)
        except BrokenError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seen |= log.seen
    assert seen >= {
        "records go",
        "tombstones go",
        "a reader came to the end",
        "unclean",
        "made again",
        "fetched as a whole",
        "inside a compacted segment",
        "past the cut",
    }


# Short lives, each of which a rule decides.
FIVE = "+a +b +c -a +d f2 f2 f2 f2 f2 f3 f3 f3 f3 f3 h"
READER_MEETS_A_TOMBSTONE = f"{FIVE} r2 d C1 C2 C3 r1 r1"
LAGGARD = f"{FIVE} l3 d C1 C2 d C1 C2 d t j3 r3 C3 t d C1 r1 r1"
MISSED = (
    "+a +b +c f2 f3 f2 f3 f2 f3 h l3 -a +d f2 f2 h d C1 C2 d d t t d C1 C2 f3 f3 C3 f3 f3 C3 j3"
)
PARTIAL = "l2 l3 +a+b f2 +a+c h d C1 f3 u2 +d f3 f3 h j3"
LACKING_LEADER = "l2 l3 +a+b f2 +a+c h d C1 f3 u3 f2"
NOT_FINISHED = f"{FIVE} d C1 C3 d"
BEHIND = "+a +b +c f2 f2 f2 f3 f3 f3 h l3 +a f2 h d C1 C2 f3"
CHANGES = "+a f2 f3 h p v1 -a +b f2 f2 f3 f3 h d C1 C2 C3 d d t t d C1 x1"
TABLE = "+a f2 f3 h p +a f2 f3 h d C1 v1"
BELOW_C = "l2 l3 +a f3 +b f2 f2 h d u3"
NOT_COMMITTED = "+a f2 f3 h +a d"


def _tombstones_go_at_once(real):
    def decided(*given):
        now = real(*given)
        below = now.compacted_below
        return replace(now, cleaned_below=below, expiring_below=below, tombstones_below=below)

    return decided


def _joins(real):
    return lambda self, decided: True


def _nothing_is_missed(real):
    return lambda *given, **named: False


def _own_counters(real):
    return lambda self, leader, *, is_first: self


def _as_its_leader(real):
    return lambda self, leader, *, is_first: leader


def _as_it_was(real):
    return lambda self, end: self


def _whole_log(real):
    return lambda ranges, **given: real(ranges, **{**given, "stable_below": 2**62})


MUTANTS = [  # a life, what is replaced and by what, and what breaks
    pytest.param(READER_MEETS_A_TOMBSTONE, [(decisions, "_decided", _tombstones_go_at_once), (Compaction, "may_count", _joins)], "a reader has", id="a-tombstone-is-dropped-before-k"),
    pytest.param(LAGGARD, [(Compaction, "may_count", _joins)], "a reader has", id="a-lagging-follower-joins"),
    pytest.param(MISSED, [(compaction, "has_missed_tombstones", _nothing_is_missed)], "content on 3", id="a-follower-goes-on-that-missed-tombstones"),
    pytest.param(PARTIAL, [(compaction, "lacks_replaced_records", _nothing_is_missed)], "missing", id="a-follower-goes-on-that-lacks-what-was-replaced"),
    pytest.param(PARTIAL, [(CompactionProgress, "after_fetch", _own_counters)], "content on 3", id="a-fetch-leaves-its-leaders-counters"),
    pytest.param(LACKING_LEADER, [(compaction, "lacks_replaced_records", _nothing_is_missed)], "missing", id="followers-of-a-leader-that-lacks-records-go-on"),
    pytest.param(BEHIND, [(CompactionProgress, "after_fetch", _as_its_leader)], "content on 3", id="a-follower-that-has-a-part-is-as-far-as-its-leader"),
    pytest.param(CHANGES, [(read_order, "_check_deletions", _nothing_is_missed)], "a cut has", id="a-reader-of-changes-missed-a-tombstone"),
    pytest.param(TABLE, [(read_order, "_check_values", _nothing_is_missed)], "a cut has", id="a-reader-of-a-cut-missed-a-value"),
    pytest.param(LACKING_LEADER, [(CompactionProgress, "lowered_to", _as_it_was)], "a leader's target", id="an-unclean-leader-keeps-its-target"),
    pytest.param(BELOW_C, [(Compaction, "lowered_to", _as_it_was)], "", id="an-unclean-election-leaves-c-above-the-log"),
    pytest.param(NOT_FINISHED, [(decisions, "_is_finished", _joins)], "unreadable", id="decided-before-the-isr-has-finished"),
    pytest.param(NOT_COMMITTED, [(compaction, "dirt_of", _whole_log), (decisions, "_cleanable_below", lambda real: lambda partition, dirt: dirt.cleanable_below)], "", id="above-the-last-stable-offset"),
]  # fmt: skip


@pytest.mark.parametrize("life, replaced, breaks", MUTANTS)
def test_each_rule_is_needed(life, replaced, breaks, monkeypatch):
    for where, name, make in replaced:
        monkeypatch.setattr(where, name, make(getattr(where, name)))

    with pytest.raises(AssertionError) as caught:
        run(Log(), life)

    assert not isinstance(caught.value, ImpossibleError)
    assert str(caught.value).startswith(breaks)


@pytest.mark.parametrize("life", sorted({case.values[0] for case in MUTANTS}))
def test_with_every_rule_the_same_lives_are_sound(life):
    with contextlib.suppress(ImpossibleError):  # a step that a rule forbids
        run(Log(), life)
