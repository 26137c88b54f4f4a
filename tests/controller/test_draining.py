"""A broker is emptied step by step, nothing going offline, and leaves when it is empty."""

from itertools import product

import pytest

from kafka_on_spark.base.errors import BrokerIdNotRegisteredError, InvalidRequestError
from kafka_on_spark.controller.brokers import (
    continue_draining,
    drain_broker,
    resume_broker,
    unregister_broker,
)
from kafka_on_spark.metadata.broker import BrokerState
from tests.builders import KEY, TOPIC_ID, brokers, image_of, partition, subsets
from tests.committing import committed


def only(image):
    return image.topics[TOPIC_ID].partitions[0]


def test_every_small_partition_is_drained_without_going_offline():
    commits = 0
    states = product(subsets(brokers("1 2 3")), [None, 1, 2, 3], subsets(brokers("2 3")))
    for isr, leader, fenced in states:
        if leader is not None and (leader not in isr or leader in fenced):
            continue
        before = partition("1 2 3", isr=" ".join(map(str, isr)), leader=leader)
        image = image_of(before, fenced=" ".join(map(str, fenced)))
        decided = drain_broker(image, 1, "why")
        while decided.records:
            after = committed(image, decided.records)
            # Leaderships first, the ISR after: never both in one commit.
            assert only(after).leader == only(image).leader or only(after).isr == only(image).isr
            assert (only(after).leader is None) == (leader is None)
            assert bool(only(after).isr) == bool(isr)
            commits += 1
            image, decided = after, continue_draining(after)
        can_follow = (isr & {2, 3}) - fenced
        assert (only(image).leader == 1) == (leader == 1 and not can_follow)
        assert (1 in only(image).isr) == (1 in isr and only(image).leader in (None, 1))
    assert commits == 64 + 15  # one a state, and an ISR shrinks in 7 + 4 + 4 of them


def test_draining_again_is_nothing_new_and_resuming_an_active_broker_is_nothing():
    image = image_of(partition("1 2"), ids="1 2")
    drained = committed(image, drain_broker(image, 1, "why").records)

    assert drained.brokers[1].state is BrokerState.DRAINING
    assert drain_broker(drained, 1, "why").records == []
    assert resume_broker(image, 1, "why").records == []
    assert continue_draining(image).records == []


def test_answer_is_what_moves():
    image = image_of(partition("1 2"), partition("2 1"), ids="1 2")

    assert drain_broker(image, 1, "why").response == [KEY]


# fmt: off
REFUSED = [
    pytest.param(lambda image: drain_broker(image, 9, ""),      BrokerIdNotRegisteredError, r"no broker 9.*\[1, 2, 3, 4\]", id="drain-an-unknown-one"),
    pytest.param(lambda image: resume_broker(image, 9, ""),     BrokerIdNotRegisteredError, "no broker 9",                  id="resume-an-unknown-one"),
    pytest.param(lambda image: unregister_broker(image, 9, ""), BrokerIdNotRegisteredError, "no broker 9",                  id="unregister-an-unknown-one"),
    pytest.param(lambda image: drain_broker(image, 4, ""),      InvalidRequestError,        "broker 4 is fenced",           id="drain-a-fenced-one"),
    pytest.param(lambda image: resume_broker(image, 4, ""),     InvalidRequestError,        "broker 4 is fenced",           id="resume-a-fenced-one"),
    pytest.param(lambda image: unregister_broker(image, 2, ""), InvalidRequestError,        "2 partitions, orders-0 among", id="unregister-one-with-replicas"),
]
# fmt: on


@pytest.mark.parametrize("decide, error, words", REFUSED)
def test_refused_in_a_sentence(decide, error, words):
    image = image_of(partition("1 2"), partition("2 3"), ids="1 2 3 4", fenced="4")

    with pytest.raises(error, match=words):
        decide(image)


def in_short(registered):
    return " ".join(map(str, sorted(registered.isr))), registered.leader


# fmt: off
DRAINED = [  # partition before, broker 1 draining         after the first commit   at the end
    pytest.param(partition("1 2 3"),                       ("1 2 3", 2),            ("2 3", 2),  id="leadership-moves-first-the-isr-shrinks-after"),
    pytest.param(partition("2 1 3"),                       ("1 2 3", 2),            ("2 3", 2),  id="follower-leaves-the-isr"),
    pytest.param(partition("1 2 3", isr="1 3"),            ("1 3", 3),              ("3", 3),    id="the-next-in-sync-leads"),
    pytest.param(partition("1 2", isr="1"),                ("1", 1),                ("1", 1),    id="alone-in-sync-it-leads-on"),
    pytest.param(partition("1"),                           ("1", 1),                ("1", 1),    id="only-replica-leads-on"),
    pytest.param(partition("1 2", isr="1", leader=None),   ("1", None),             ("1", None), id="without-a-leader-it-stays-in-sync"),
    pytest.param(partition("2 3"),                         ("2 3", 2),              ("2 3", 2),  id="not-there"),
    pytest.param(partition("1 4 2"),                       ("1 2 4", 2),            ("2 4", 2),  id="draining-and-fenced-ones-do-not-lead"),
]
# fmt: on


@pytest.mark.parametrize("before, first, last", DRAINED)
def test_broker_is_drained(before, first, last):
    image = image_of(before, ids="1 2 3 4", draining="4")
    if 4 in before.replicas:
        last = (last[0].replace(" 4", ""), last[1])

    drained = committed(image, drain_broker(image, 1, "why").records)

    assert in_short(only(drained)) == first
    assert in_short(only(finished(drained))) == last


def finished(image):
    """Return the image once nothing is left to do; bounded."""
    for _ in range(4):
        decided = continue_draining(image)
        if not decided.records:
            return image
        image = committed(image, decided.records)
    raise AssertionError("draining goes on and on")
