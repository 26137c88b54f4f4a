"""Checks of a request's leader epoch: their order is part of the protocol (KIP-320)."""

import pytest

from kafka_on_spark.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.log.leadership import check_leader_epoch, check_request
from tests.builders import partition

FENCED, UNKNOWN = FencedLeaderEpochError, UnknownLeaderEpochError
NOT_LEADER, NOT_THERE = NotLeaderOrFollowerError, UnknownTopicOrPartitionError

# fmt: off
EPOCHS = [  # known  asked  refusal
    pytest.param(5,    5,    None,    id="the-current-one"),
    pytest.param(5,    None, None,    id="none-is-named"),
    pytest.param(5,    4,    FENCED,  id="older"),
    pytest.param(5,    6,    UNKNOWN, id="newer"),
    pytest.param(None, 0,    UNKNOWN, id="nothing-adopted-yet"),
    pytest.param(None, None, None,    id="nothing-adopted-none-named"),
]
# The partition is led by broker 1 in epoch 5 and has replicas on 1 and 2.
REQUESTS = [  # asked  epoch  only the leader  fetched by  refusal
    pytest.param(1, 5,    True,  None, None,       id="leader"),
    pytest.param(1, 5,    True,  2,    None,       id="leader-by-its-follower"),
    pytest.param(1, 5,    True,  3,    UNKNOWN,    id="leader-by-an-unassigned-that-knows-the-epoch"),
    pytest.param(1, None, True,  3,    NOT_LEADER, id="leader-by-an-unassigned-that-knows-none"),
    pytest.param(1, 4,    True,  3,    FENCED,     id="epoch-before-assignment"),
    pytest.param(2, 5,    False, None, None,       id="follower-that-may-answer"),
    pytest.param(2, 5,    True,  None, NOT_LEADER, id="follower-that-may-not"),
    pytest.param(2, 4,    True,  None, FENCED,     id="older-epoch-before-role"),
    pytest.param(2, 6,    True,  None, UNKNOWN,    id="newer-epoch-before-role"),
    pytest.param(3, 4,    True,  None, NOT_THERE,  id="no-replica-there-before-all"),
]
# fmt: on


def refusal_of(check, *args, **kwargs):
    try:
        check(*args, **kwargs)
    except (FENCED, UNKNOWN, NOT_LEADER, NOT_THERE) as error:
        return type(error)
    return None


@pytest.mark.parametrize("known, asked, expected", EPOCHS)
def test_check_leader_epoch(known, asked, expected):
    assert refusal_of(check_leader_epoch, known, asked) is expected


@pytest.mark.parametrize("broker_id, epoch, only_leader, fetched_by, expected", REQUESTS)
def test_check_request(broker_id, epoch, only_leader, fetched_by, expected):
    actual = refusal_of(
        check_request,
        partition("1 2", epoch=5),
        broker_id,
        leader_epoch=epoch,
        only_leader=only_leader,
        fetched_by=fetched_by,
    )

    assert actual is expected


def test_partition_that_is_gone_is_unknown():
    with pytest.raises(UnknownTopicOrPartitionError):
        check_request(None, 1, leader_epoch=None, only_leader=True)
