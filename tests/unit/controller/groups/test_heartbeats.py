"""Heartbeats: who is silent by which looks, who listens to whom, and who may go on."""

import pytest

from kafka_on_spark.controller.groups.heartbeats import (
    Heard,
    Look,
    after_look,
    may_go_on,
    to_listen_to,
)

SESSION_MS = 45_000
ONE, TWO = (b"1",), (b"2",)
INTERVAL_MS = 5_000


def heard(*looks):
    """Return what looks lead to: each a moment in s, or a beginning and an end, and a content."""
    known = None
    for moment, content in looks:
        began, ended = moment if isinstance(moment, tuple) else (moment, moment)
        known = after_look(known, Look(began * 1000, ended * 1000, content), SESSION_MS)
    return known


def every(seconds, end, content=ONE):
    return [(second, content) for second in range(0, end + 1, seconds)]


@pytest.mark.parametrize(
    "looks, silent_s",
    [
        pytest.param(every(5, 0), 0, id="one look tells nothing"),
        pytest.param(every(5, 40), 40, id="the same for 40 s"),
        pytest.param(every(15, 45), 45, id="three looks a session are enough"),
        pytest.param([*every(5, 40), (45, TWO)], 0, id="it beats"),
        pytest.param([*every(5, 20), (45, ONE)], 0, id="who looks was frozen meanwhile"),
        pytest.param([*every(5, 20), (45, ONE), (50, ONE)], 5, id="and counts anew"),
        pytest.param(every(5, 45, ()), 45, id="there never was a heartbeat"),
        pytest.param([*every(5, 40), (45, ())], 0, id="it is removed"),
        # It may have beaten in the last moment of the first look, and in the first of the last.
        pytest.param([((0, 4), ONE), ((10, 19), ONE)], 6, id="between looks that take long"),
        pytest.param([((0, 9), ONE)], 0, id="never below nothing"),
    ],
)
def test_a_member_is_silent_for_as_long_as_it_surely_was(looks, silent_s):
    known = heard(*looks)

    assert known.silent_ms == silent_s * 1000
    assert known.is_over(SESSION_MS) == (silent_s >= 45)


def silent(seconds):
    return Heard(ONE, 0, seconds * 1000, seconds * 1000)


@pytest.mark.parametrize(
    "me, known, listened",
    [
        pytest.param("a", {}, "b", id="to the next"),
        pytest.param("d", {}, "a", id="in a circle"),
        pytest.param("a", {"b": silent(15), "c": silent(0)}, "b", id="which may be a little late"),
        pytest.param("a", {"b": silent(16), "c": silent(0)}, "bc", id="past one that is silent"),
        pytest.param("c", dict.fromkeys("abd", silent(40)), "dab", id="to all if all are"),
        pytest.param("a", {"b": silent(16)}, "bc", id="to one that it has not heard yet"),
    ],
)
def test_a_member_listens_to_those_behind_it_up_to_one_that_lives(me, known, listened):
    assert to_listen_to("dcba", me, known, INTERVAL_MS) == list(listened)


def test_a_member_alone_listens_to_nobody():
    assert to_listen_to("a", "a", {}, INTERVAL_MS) == []


def test_who_lives_hears_of_every_member_that_died():
    members = "abcdefg"
    for dead in ("b", "bcd", "ag", "abdefg"):
        known = {name: silent(40 if name in dead else 0) for name in members}
        living = set(members) - set(dead)
        listened = {each for me in living for each in to_listen_to(members, me, known, INTERVAL_MS)}
        assert listened >= set(dead)


def test_who_may_have_been_fenced_looks_before_it_goes_on():
    assert may_go_on(1_000, 45_999, SESSION_MS)
    assert not may_go_on(1_000, 46_000, SESSION_MS)
