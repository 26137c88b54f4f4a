"""What a process logs of decisions that it replays, whoever has made them; and since when brokers are as they are."""

import logging

import pytest

from kafka_on_spark.base.errors import HistoryExpiredError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    BrokerState,
    ControllerRecord,
    VotersRecord,
)
from kafka_on_spark.observe.history import log_transitions, state_begins
from tests.controller.lives import life

WARNING, INFO = logging.WARNING, logging.INFO
FAILS = "b has not renewed its lease for 10000 ms"


def claim(epoch, controller="a", *, resigns=False):
    return ControllerRecord(
        controller_id=controller, controller_epoch=epoch, is_resignation=resigns
    )


def claimed(*claims):
    lived = life("1 2")
    lived.commit(claim(1, "b"))
    return lived, lambda: lived.commit(*claims)


def resigned():
    lived, claims = claimed(claim(2))
    lived.commit(claim(1, "b", resigns=True))
    return lived, claims


def before_a_loss():
    lived = life("1 2 3", "2 3 1", "1 2").append(3)
    return lived, lambda: lived.fail(1)


def after_a_loss():
    lived, fail = before_a_loss()
    fail()
    return lived, lambda: lived.come_back(1)


def fenced_again():
    lived, fail = before_a_loss()
    fail()
    return lived, lambda: lived.commit(change(lived, 1, BrokerState.FENCED))


def drained():
    lived = life("1 2")
    return lived, lambda: lived.drain(1).commit(change(lived, 1, BrokerState.ACTIVE))


def with_voters():
    lived = life("1 2")
    record = VotersRecord(voters=("4:d4:/m4",), cause="4:d4:/m4 added by request")
    return lived, lambda: lived.commit(record)


def without_leader():
    lived = life("1 2").append(5).isr("1").fail(1)
    return lived, lambda: lived.come_back(2).recover((2, 3), forced=True)


def change(lived, broker_id, state):
    epoch = lived.image.brokers[broker_id].broker_epoch
    return BrokerChangeRecord(broker_id=broker_id, broker_epoch=epoch, broker_state=state)


# fmt: off
TOLD = [
    pytest.param(before_a_loss,              [(WARNING, "broker 1 is fenced: gone; it led 2 partitions")], id="fenced"),
    pytest.param(after_a_loss,               [(WARNING, "broker 1 is unfenced: back")], id="unfenced"),
    pytest.param(fenced_again,               [], id="fenced already"),
    pytest.param(drained,                    [], id="drained and resumed, by people"),
    pytest.param(without_leader,             [(WARNING, "orders-0: broker 2: unclean election, offsets 3 to 4 are lost")], id="unclean"),
    pytest.param(lambda: claimed(claim(2)),  [(WARNING, f"a controls in epoch 2: {FAILS}")], id="taken over"),
    pytest.param(lambda: claimed(claim(1, "b")), [], id="renewed"),
    pytest.param(lambda: claimed(claim(2), claim(2, resigns=True)),
                                             [(WARNING, f"another process controls in epoch 2: {FAILS}")], id="an append decided"),
    pytest.param(with_voters,                [(WARNING, "voter 4:d4:/m4 added by request")], id="a voter comes"),
    pytest.param(resigned,                   [(INFO, "a controls in epoch 2: nobody did")], id="resigned before"),
]
# fmt: on


@pytest.mark.parametrize("prepared, expected", TOLD)
@pytest.mark.parametrize("is_long", [False, True])
def test_a_transition_is_told_once_in_its_word(prepared, expected, is_long, caplog):
    caplog.set_level(INFO)
    lived, act = prepared()
    before, count = lived.image, len(lived.batches)
    act()
    caplog.clear()
    for part in [lived.batches[count:]] if is_long else [[each] for each in lived.batches[count:]]:
        after = before.replay(*part)
        log_transitions(before, part, after)
        before = after

    assert [(each.levelno, each.getMessage()) for each in caplog.records] == expected


def pieces_of(lived, size, *, lost=0):
    """Yield a log in pieces, the newest first; the oldest so many are gone."""
    starts = range(0, len(lived.batches), size)
    for start in reversed(starts):
        if start < lost:
            raise HistoryExpiredError("gone")
        yield MetadataImage(), lived.batches[start : start + size]


def not_active(lived):
    return {
        each.broker_id: each
        for each in lived.image.brokers.values()
        if each.state is not BrokerState.ACTIVE
    }


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_broker_that_is_not_active_says_since_when_and_why(size):
    lived = life("1 2 3").at(1).fail(3).at(2).come_back(3).at(3).fail(1).at(4).drain(2)
    lived.at(5).fail(3).at(6).commit(change(lived, 3, BrokerState.FENCED))

    found = state_begins(not_active(lived), pieces_of(lived, size))

    assert {key: (each.time.second, each.why) for key, each in found.items()} == {
        1: (3, "gone"),
        2: (4, "drained"),
        3: (5, "gone"),
    }


def test_a_decision_that_is_gone_from_the_history_is_left_out():
    lived = life("1 2 3").at(1).fail(3)
    first = len(lived.batches)
    lived.at(2).fail(1)

    assert set(state_begins(not_active(lived), pieces_of(lived, 1, lost=first))) == {1}


def test_what_was_before_a_broker_was_fenced_is_not_read():
    lived = life("1 2 3").at(1).fail(3)
    lived.at(2).commit(change(lived, 3, BrokerState.FENCED))
    pieces = pieces_of(lived, 1)

    assert state_begins(not_active(lived), pieces)[3].why == "gone"
    assert list(pieces), "all was read"


def test_nothing_is_read_of_brokers_that_are_all_active():
    def read():
        raise AssertionError("it was read")
        yield

    assert state_begins({}, read()) == {}
