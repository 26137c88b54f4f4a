"""Heartbeats: who is silent by which looks, and who listens to whom."""

import itertools
from dataclasses import replace

import pytest

from kafka_on_spark.groups.liveness import (
    Observed,
    members_to_check,
    observe,
)

SESSION_MS = 45_000
ONE, TWO, NONE = {"r0": b"1"}, {"r0": b"2"}, {"r0": None}
INTERVAL_MS = 5_000


def heard(*looks):
    """Return what looks lead to: each a moment in s, or a beginning and an end, and a content."""
    known = None
    for moment, content in looks:
        began, ended = moment if isinstance(moment, tuple) else (moment, moment)
        known = observe(known, content, began * 1000, ended * 1000, SESSION_MS)
    return known


def every(seconds, end, content=ONE):
    return [(second, content) for second in range(0, end + 1, seconds)]


def on(roots):
    """Return what a look finds on three roots: a count, - for no file, . for one not read."""
    read = {f"r{at}": each for at, each in enumerate(roots) if each != "."}
    return {root: None if each == "-" else each.encode() for root, each in read.items()}


@pytest.mark.parametrize(
    "looks, silent_s",
    [
        pytest.param(every(5, 0), 0, id="one look tells nothing"),
        pytest.param(every(5, 40), 40, id="the same for 40 s"),
        pytest.param(every(15, 45), 45, id="three looks a session are enough"),
        pytest.param([*every(5, 40), (45, TWO)], 0, id="it beats"),
        pytest.param([*every(5, 20), (45, ONE)], 0, id="who looks was frozen meanwhile"),
        pytest.param([*every(5, 20), (45, ONE), (50, ONE)], 5, id="and counts anew"),
        pytest.param(every(5, 45, NONE), 45, id="there never was a heartbeat"),
        pytest.param([*every(5, 40), (45, NONE)], 0, id="it is removed"),
        pytest.param([*every(5, 20, on("11.")), (25, on("1.-"))], 0, id="another root is read"),
        pytest.param(
            [*every(5, 20, on("11.")), (25, on("1.-")), (30, on("11.")), (35, on("1.-"))],
            10,
            id="and either of them since",
        ),
        # It may have beaten in the last moment of the first look, and in the first of the last.
        pytest.param([((0, 4), ONE), ((10, 19), ONE)], 6, id="between looks that take long"),
        pytest.param([((0, 9), ONE)], 0, id="never below nothing"),
    ],
)
def test_a_member_is_silent_for_as_long_as_it_surely_was(looks, silent_s):
    known = heard(*looks)

    assert known.silent_ms == silent_s * 1000


@pytest.mark.parametrize(
    "looks, has_beaten",
    [
        pytest.param(every(5, 40), False, id="the same"),
        pytest.param([(0, ONE), (5, TWO)], True, id="another"),
        pytest.param([(0, ONE), (5, TWO), (10, TWO)], True, id="and the same since"),
        pytest.param([(0, ONE), (5, TWO), (40, TWO)], False, id="who looks was frozen since"),
        pytest.param([(0, ONE), (40, TWO)], True, id="or before"),
        pytest.param([(0, on("11.")), (5, on("1.-"))], False, id="another root has none"),
        pytest.param([(0, on("1.1")), (5, on("12."))], False, id="or a newer one"),
        pytest.param([(0, on("11.")), (5, on("1.2")), (10, on("12."))], True, id="and later one"),
        pytest.param(
            [(0, on("1.1")), (5, on("22.")), (10, on("2.2"))], False, id="of before it was heard"
        ),
    ],
)
def test_two_heartbeats_tell_that_a_member_lives(looks, has_beaten):
    assert heard(*looks).has_beaten is has_beaten


MAJORITIES = ("r0", "r1"), ("r0", "r2"), ("r1", "r2")


def test_whichever_roots_are_read_no_member_is_silent_for_longer_than_it_was():
    """And one that beats is heard to at every second look at least."""
    cases = 0
    for beaten_on in itertools.product([(), *MAJORITIES], repeat=4):
        for read in itertools.product(MAJORITIES, repeat=4):
            cases += 1
            stands = dict.fromkeys(("r0", "r1", "r2"), b"0")
            known, last_ms, heard_at = None, -SESSION_MS, 0
            for turn, (beaten, roots) in enumerate(zip(beaten_on, read, strict=True)):
                now_ms = turn * INTERVAL_MS
                if beaten:
                    stands |= dict.fromkeys(beaten, str(turn + 1).encode())
                    last_ms = now_ms - 1
                content = {each: stands[each] for each in roots}
                known = observe(known, content, now_ms, now_ms, SESSION_MS)
                assert known.silent_ms <= now_ms - last_ms, (beaten_on, read)
                heard_at = turn if known.has_beaten else heard_at
                assert turn - heard_at < 2 or not all(beaten_on), (beaten_on, read)
    assert cases == 4**4 * 3**4


def silent(seconds):
    return Observed(ONE, 0, seconds * 1000, seconds * 1000)


def beating(seconds):
    return replace(silent(seconds), has_beaten=True)


@pytest.mark.parametrize(
    "me, known, listened",
    [
        pytest.param("a", {}, "b", id="to the next"),
        pytest.param("d", {}, "a", id="in a circle"),
        pytest.param("a", {"b": silent(15), "c": beating(0)}, "b", id="which may be a little late"),
        pytest.param("a", {"b": silent(16), "c": beating(0)}, "bc", id="past one that is silent"),
        pytest.param("a", {"b": beating(16), "c": beating(9)}, "bc", id="or has fallen silent"),
        pytest.param("c", dict.fromkeys("abd", silent(40)), "dab", id="to all if all are"),
        pytest.param("a", {"b": silent(16)}, "bcd", id="to all that it has not heard yet"),
        pytest.param("a", {"b": silent(16), "c": silent(5)}, "bcd", id="or not heard to beat"),
        pytest.param("a", {"b": silent(16), "c": beating(16)}, "bcd", id="lately"),
    ],
)
def test_a_member_listens_to_those_behind_it_up_to_one_that_lives(me, known, listened):
    assert members_to_check("dcba", me, known, INTERVAL_MS) == list(listened)


def test_a_member_alone_listens_to_nobody():
    assert members_to_check("a", "a", {}, INTERVAL_MS) == []


def test_who_lives_hears_of_every_member_that_died():
    members = "abcdefg"
    for dead in ("b", "bcd", "ag", "abdefg"):
        known = {name: silent(40 if name in dead else 0) for name in members}
        living = set(members) - set(dead)
        listened = {
            each for me in living for each in members_to_check(members, me, known, INTERVAL_MS)
        }
        assert listened >= set(dead)
