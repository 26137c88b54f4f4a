"""What a serving process says of itself: nothing is well that was not looked at."""

from dataclasses import replace

import pytest

from kafka_on_spark.service.serve.health import Limits, healthz, readyz
from kafka_on_spark.service.serve.looks import (
    CONTROL,
    METADATA,
    PASS,
    ROUND,
    ROUNDS,
    Look,
    Looks,
    Role,
    Seen,
)
from kafka_on_spark.service.serve.serving_metrics import is_cut_off
from tests.fakes import FakeClock

LIMITS = Limits(stalled_ms=600_000, rounds_stalled_ms=3_600_000, look_ms=60_000)
NOW_MS = 10_000_000


def seen(
    role=Role.CONTROLLER,
    moved_ago_ms=0,
    controller="a",
    rounds_ago_ms=0,
    lease_left_ms=0,
    **looks,
):
    return Seen(
        role=role,
        started_at_ms=0,
        looks=looks,
        moved_at_ms={CONTROL: NOW_MS - moved_ago_ms, ROUNDS: NOW_MS - rounds_ago_ms},
        controller=controller,
        lease_until_ms=NOW_MS + lease_left_ms,
    )


def ended(ago_ms=100, **fields):
    return Look(ended_at_ms=NOW_MS - ago_ms, count=1, **fields)


GOOD = {METADATA: ended(), PASS: ended()}

# fmt: off
READINESS = [
    pytest.param(seen(**GOOD), "", id="a controller whose pass has ended"),
    pytest.param(seen(**GOOD, **{ROUND: ended(ago_ms=7_000_000)}), "", id="a round that copies for hours"),
    pytest.param(seen(Role.STANDBY, **{METADATA: ended()}), "", id="a standby that can read"),
    pytest.param(seen(Role.STARTING), "it is starting", id="nothing was read"),
    pytest.param(seen(Role.ENDING, **GOOD), "it is ending", id="it ends"),
    pytest.param(seen(Role.STANDBY), "metadata: none has come to its end yet", id="a standby that has read nothing"),
    pytest.param(seen(**{METADATA: ended()}), "pass: none has come to its end yet", id="no pass yet"),
    pytest.param(seen(**{METADATA: ended(), PASS: ended(61_000)}), "pass: the last one ended 61.0 s ago, more than 60.0 s", id="an old pass"),
    pytest.param(seen(**{METADATA: ended(61_000), PASS: ended()}), "metadata: the last one ended 61.0 s ago", id="an old reading"),
    pytest.param(seen(**{METADATA: ended(error="away"), PASS: ended()}), "metadata: away", id="a failed reading"),
    pytest.param(seen(**{METADATA: ended(), PASS: ended(error="full")}), "pass: full", id="a failed pass"),
    pytest.param(seen(**GOOD, **{ROUND: ended(error="odd")}), "round: odd", id="a failed round"),
    pytest.param(seen(lease_left_ms=-1, **GOOD), "its lease is over", id="a controller that could not renew its lease"),
    pytest.param(seen(Role.STANDBY, controller=None, **{METADATA: ended()}), "nobody is the controller", id="a standby that is about to take over"),
    pytest.param(seen(Role.STANDBY, controller=None, **{METADATA: ended(), PASS: Look(error="full")}), "pass: full", id="a standby that can't take over"),
]
# fmt: on


@pytest.mark.parametrize("state,reason", READINESS)
def test_it_is_ready_only_for_what_it_has_looked_at(state, reason):
    answer = readyz(state, NOW_MS, LIMITS)

    assert answer.is_well == (not reason)
    assert reason in "; ".join(answer.body["reasons"])


@pytest.mark.parametrize("moved_ago_ms,is_well", [(0, True), (600_000, True), (600_001, False)])
def test_it_is_healthy_while_its_loop_moves(moved_ago_ms, is_well):
    state = seen(Role.STANDBY, moved_ago_ms, **{METADATA: Look(error="away")})

    answer = healthz(state, NOW_MS, LIMITS)

    assert answer.is_well == is_well
    assert bool(answer.body["reasons"]) != is_well


@pytest.mark.parametrize("ago_ms,is_well", [(3_600_000, True), (3_600_001, False)])
def test_a_round_may_take_longer_than_a_pass_but_not_for_ever(ago_ms, is_well):
    answer = healthz(seen(rounds_ago_ms=ago_ms), NOW_MS, LIMITS)

    assert answer.is_well == is_well
    assert ("the loop of rounds has not moved" in "".join(answer.body["reasons"])) != is_well


def test_a_failure_is_news_once_and_its_end_names_it():
    clock = FakeClock()
    looks = Looks(clock)

    assert looks.note_failure(PASS, "away")
    since = looks.seen.looks[PASS].failing_since_ms
    clock.advance(1000)
    assert not looks.note_failure(PASS, "away")
    assert looks.note_failure(PASS, "full")
    assert looks.seen.looks[PASS].failing_since_ms == since
    assert looks.note_end(PASS) == "full"
    assert looks.seen.looks[PASS].error is None
    assert looks.seen.looks[PASS].failed_count == 3


def test_what_is_under_way_is_said_and_a_look_that_raises_is_a_failure():
    clock = FakeClock()
    looks = Looks(clock)

    with looks.looking(ROUND) as said:
        clock.advance(1500)
        under_way = readyz(looks.seen, clock.monotonic_ms(), LIMITS).body["under_way_seconds"]
        said["copied_records"] = 7
    with pytest.raises(OSError, match="odd"), looks.looking(METADATA):
        raise OSError("odd")

    body = readyz(looks.seen, clock.monotonic_ms(), LIMITS).body
    assert under_way == {ROUND: 1.5}
    assert body["under_way_seconds"] == {}
    assert body["looks"][ROUND]["copied_records"] == 7
    assert body["looks"][METADATA]["error"] == "odd"


def test_a_standby_forgets_its_own_passes_once_another_renews_its_lease():
    looks = Looks(FakeClock())
    looks.note_failure(PASS, "full")

    looks.stand_by(None)
    assert looks.seen.looks[PASS].error == "full"
    looks.stand_by("b")
    assert PASS not in looks.seen.looks


def test_a_process_that_ends_becomes_nothing_else():
    looks = Looks(FakeClock())
    looks.become(Role.ENDING)
    looks.hold("a", looks.now_ms() + 1500)

    assert looks.seen.role is Role.ENDING


def test_a_process_is_the_controller_for_as_long_as_its_lease_lasts():
    clock = FakeClock()
    looks = Looks(clock)
    assert not looks.seen.holds_lease(clock.monotonic_ms())

    looks.hold("a", clock.monotonic_ms() + 1500)
    clock.advance(1500)
    assert looks.seen.holds_lease(clock.monotonic_ms())
    clock.advance(1)
    assert not looks.seen.holds_lease(clock.monotonic_ms())
    looks.hold("a", clock.monotonic_ms() + 1500)
    assert looks.seen.holds_lease(clock.monotonic_ms())
    looks.stand_by("b")
    assert not looks.seen.holds_lease(clock.monotonic_ms())


@pytest.mark.parametrize(
    "look, is_it",
    [
        pytest.param(None, False, id="nothing was read"),
        pytest.param(ended(ago_ms=60_000), False, id="an old reading"),
        pytest.param(ended(failing_since_ms=NOW_MS - 1500), False, id="as long as a lease"),
        pytest.param(ended(failing_since_ms=NOW_MS - 1501), True, id="longer"),
    ],
)
def test_a_process_is_cut_off_once_its_readings_fail_for_longer_than_a_lease(look, is_it):
    looks = {} if look is None else {METADATA: look}

    assert is_cut_off(seen(**looks), NOW_MS, 1500) is is_it


@pytest.mark.parametrize(
    "began_at_ms, look, is_it",
    [
        pytest.param({METADATA: NOW_MS - 1500}, ended(), False, id="as long as a lease"),
        pytest.param({METADATA: NOW_MS - 1501}, ended(), True, id="longer"),
        pytest.param({METADATA: NOW_MS - 1501}, None, True, id="the first call"),
        pytest.param(
            {METADATA: NOW_MS},
            ended(failing_since_ms=NOW_MS - 1501),
            True,
            id="one after others that failed",
        ),
        pytest.param({ROUND: NOW_MS - 1501}, ended(), False, id="a long round"),
    ],
)
def test_a_process_is_cut_off_while_a_call_to_the_metadata_hangs(began_at_ms, look, is_it):
    looks = {} if look is None else {METADATA: look}
    state = replace(seen(**looks), began_at_ms=began_at_ms)

    assert is_cut_off(state, NOW_MS, 1500) is is_it
