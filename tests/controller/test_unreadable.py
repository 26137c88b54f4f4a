"""A leader that can't be read for long leaves ISR and leadership: the one found, no other."""

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import LOST, BrokerId
from kafka_on_spark.controller.isr import leave_unreadable
from kafka_on_spark.controller.lost_replicas import lose_replica
from tests.builders import KEY, brokers, image_of, partition, uuid_on


def leaves(registration, *, broker_id=1, uuid=None, readable="2 3", fenced=""):
    """Return whether a replica leaves the ISR."""
    image = image_of(*registration, fenced=fenced)
    result = leave_unreadable(
        image,
        KEY,
        BrokerId(broker_id),
        uuid_on(broker_id) if uuid is None else uuid,
        readable=frozenset(brokers(readable)),
        cause="EIO",
    )
    assert result.response is bool(result.records)
    return result.response


# fmt: off
CASES = [
    pytest.param([partition("1 2 3")],              {},                  True,  id="the leader"),
    pytest.param([partition("1 2 3")],              {"broker_id": 3, "readable": "1 2"}, False, id="a follower"),
    pytest.param([],                                {},                  False, id="the partition is gone"),
    pytest.param([partition("1 2 3", isr="2 3", leader=2)], {},          False, id="it is out of the ISR"),
    pytest.param([partition("1 2 3")],              {"uuid": ""},        False, id="an earlier incarnation"),
    pytest.param([partition("1 2 3")],              {"uuid": "~"},       False, id="a later incarnation"),
    pytest.param([partition("1 2 3")],              {"readable": ""},    False, id="nobody can be read"),
    pytest.param([partition("1 2 3")],              {"readable": "1"},   False, id="it alone can be read"),
    pytest.param([partition("1 2 3", isr="1 2")],   {"readable": "3"},   False, id="only who is not in sync can be read"),
    pytest.param([partition("1 2 3")],              {"readable": "2", "fenced": "2"}, False, id="only who is fenced can be read"),
]
# fmt: on


@pytest.mark.parametrize("registration, how, expected", CASES)
def test_a_replica_leaves_where_a_member_is_left_that_can_be_read(registration, how, expected):
    assert leaves(registration, **how) is expected


def test_a_person_may_call_a_replica_lost_that_is_made_and_no_other():
    image = image_of(partition("1 2 3", unmade="3", isr="1 2"))

    [record] = lose_replica(image, KEY, BrokerId(2), "by request").records
    assert image.partition(KEY).merge(record.change).directory_of(BrokerId(2)) == LOST

    for broker_id in (3, 4):
        with pytest.raises(InvalidRequestError, match="one of the brokers 1, 2"):
            lose_replica(image, KEY, BrokerId(broker_id), "by request")
