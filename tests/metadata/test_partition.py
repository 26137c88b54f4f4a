"""How one change alters a registration, and which registrations can't be."""

from itertools import product

import pytest

from kafka_on_spark.base.ids import KEEP
from kafka_on_spark.metadata.partition import PartitionChange
from tests.builders import brokers, partition, subsets


def test_every_small_change_moves_the_two_epochs_and_nothing_that_it_does_not_name():
    checked = 0
    everyone = brokers("1 2 3")
    for isr, leader, elr in product(
        [KEEP, *subsets(everyone)], [KEEP, None, *everyone], [KEEP, frozenset()]
    ):
        change = PartitionChange(isr=isr, leader=leader, elr=elr)
        before = partition("2 1 3", isr="1 2", leader=1)
        try:
            after = before.merge(change)
        except AssertionError:
            members = before.isr if isr is KEEP else isr
            assert (before.leader if leader is KEEP else leader) not in {None, *members}
            continue
        checked += 1
        assert after.partition_epoch == before.partition_epoch + 1
        assert after.leader_epoch == before.leader_epoch + (leader is not KEEP)
        assert after.isr == (before.isr if isr is KEEP else isr)
        assert (after.replicas, after.directories) == (before.replicas, before.directories)
    assert checked == 56


# fmt: off
MOVING = [
    pytest.param(partition("1 2 3"),                                            False, id="all-in-sync"),
    pytest.param(partition("1 2 3", isr="1 2"),                                 True,  id="one-is-not"),
    pytest.param(partition("4 1 2", isr="1 2", leader=1, adding="4"),           False, id="who-comes-is-not-counted"),
    pytest.param(partition("4 1 2", isr="1", leader=1, adding="4"),             True,  id="who-stays-is"),
    pytest.param(partition("4 5 1 2", isr="4 5", adding="4 5", removing="1 2"), False, id="who-goes-has-gone"),
]
# fmt: on


@pytest.mark.parametrize("registered, expected", MOVING)
def test_moving_replicas_are_not_under_replicated(registered, expected):
    assert registered.is_under_replicated is expected


# fmt: off
IMPOSSIBLE = [
    pytest.param({"replicas": ""},                               id="no-replicas"),
    pytest.param({"replicas": "1 1"},                            id="a-broker-twice"),
    pytest.param({"replicas": "1 2", "isr": "1 3"},              id="isr-outside-replicas"),
    pytest.param({"replicas": "1 2", "isr": "2"},                id="leader-outside-isr"),
    pytest.param({"replicas": "1 2", "elr": "2"},                id="elr-inside-isr"),
    pytest.param({"replicas": "1 2", "isr": "1", "elr": "3"},    id="elr-outside-replicas"),
    pytest.param({"replicas": "1 2", "adding": "3"},             id="adding-outside-replicas"),
    pytest.param({"replicas": "1 2", "removing": "3"},           id="removing-outside-replicas"),
    pytest.param({"replicas": "1 2", "start": 4, "hw": 3},       id="log-start-above-the-high-watermark"),
]
# fmt: on


@pytest.mark.parametrize("fields", IMPOSSIBLE)
def test_impossible_registration_is_a_bug_of_ours(fields):
    with pytest.raises((AssertionError, IndexError)):
        partition(**fields)
