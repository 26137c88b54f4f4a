"""What would happen if brokers died: read off the metadata, by the controller's own decisions."""

import pytest

from kafka_on_spark.base.errors import BrokerIdNotRegisteredError, InvalidRequestError
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.observe.what_if import forecast, who_dies
from tests.builders import image_of, partition


def if_dies(image, *brokers):
    return forecast(image, frozenset(BrokerId(each) for each in brokers))


# fmt: off
CASES = [
    # partition                                         dies  leader  isr     under  uncommitted  at risk  copies
    pytest.param(partition("1 2 3", hw=10),             "1",  2,      (2, 3), False, 0,  0,  2, id="leader of three"),
    pytest.param(partition("1 2 3", hw=10),             "2",  1,      (1, 3), False, 0,  0,  2, id="follower of three"),
    pytest.param(partition("1 2 3", "1 3", hw=10),      "1",  3,      (3,),   True,  0,  0,  1, id="to the only other in sync"),
    pytest.param(partition("1 2 3", "1", hw=10),        "1",  None,   (1,),   True,  0,  10, 0, id="the last in sync"),
    pytest.param(partition("1 2 3", "1", hw=10, start=4), "1", None,  (1,),   True,  0,  6,  0, id="only what is still kept"),
    pytest.param(partition("1 2 3", "1", hw=10, leo=13), "1", None,   (1,),   True,  3,  13, 0, id="with what acks=1 appended"),
    pytest.param(partition("1 2 3", hw=10, leo=13),     "1",  2,      (2, 3), False, 3,  3,  2, id="leader with uncommitted records"),
    pytest.param(partition("1 2 3", hw=10, leo=13),     "2",  1,      (1, 3), False, 0,  0,  2, id="uncommitted records stay on a live leader"),
    pytest.param(partition("1 2", "1", elr="2", hw=10), "1",  2,      (2,),   True,  0,  0,  1, id="an eligible replica takes over"),
    pytest.param(partition("1", hw=10),                 "1",  None,   (1,),   False, 0,  10, 0, id="one replica"),
    pytest.param(partition("1 2 3", hw=10),             "1 2", 3,     (3,),   True,  0,  0,  1, id="two of three"),
    pytest.param(partition("1 2 3", hw=10),             "1 2 3", None, (3,),  True,  0,  10, 0, id="all"),
]
# fmt: on


@pytest.mark.parametrize("registration, dies, leader, isr, under, uncommitted, risk, copies", CASES)
def test_the_forecast_of_a_partition(
    registration, dies, leader, isr, under, uncommitted, risk, copies
):
    image = image_of(registration, configs={"min.insync.replicas": "2"})

    [found] = if_dies(image, *map(int, dies.split())).partitions

    assert (found.leader_after, found.isr_after, found.is_under_min_isr) == (leader, isr, under)
    assert (found.uncommitted_records, found.records_at_risk) == (uncommitted, risk)
    assert found.copies_left == copies
    assert found.is_offline == (leader is None)


def test_the_controller_decides_as_forecast():
    image = image_of(partition("1 2 3"), partition("2 3 1"), partition("1 3 2", "1"))

    foreseen = if_dies(image, 1)

    decided = fence_broker(image, BrokerId(1), "cause")
    by_partition = {each.partition: each.change for each in decided.records[1:]}
    assert {each.name.partition for each in foreseen.partitions} == by_partition.keys()
    assert [(str(each.name), each.leader_after) for each in foreseen.moved] == [("orders-0", 2)]
    assert [str(each.name) for each in foreseen.offline] == ["orders-2"]
    assert by_partition[0].leader == 2
    assert by_partition[2].leader is None


def test_leadership_moves_are_counted_by_old_and_new_leader():
    image = image_of(partition("1 2 3"), partition("1 3 2"), partition("1 3 2"))

    foreseen = if_dies(image, 1)

    assert foreseen.moves == {(1, 2): 1, (1, 3): 2}
    assert (foreseen.leaders_before, foreseen.leaders_after) == (
        {1: 3, 2: 0, 3: 0},
        {1: 0, 2: 1, 3: 2},
    )


def test_a_forecast_says_in_words_what_it_found():
    image = image_of(partition("1 2 3", hw=10, leo=12), partition("1 2", "1", hw=7))

    assert str(if_dies(image, 1)).splitlines() == [
        "If broker 1 died now (metadata offset 100):",
        "  1 leadership would move",
        "    1 from broker 1 to broker 2, which would lead 1 in all",
        "  1 partition would be offline: orders-1",
        "  1 partition would refuse acks=all (under min ISR): orders-1",
        "  0 partitions would have one copy in sync left",
        "  9 records would be at risk: 7 committed that no live in-sync replica has,"
        " 2 that only the dead leader has",
    ]


def test_brokers_are_named_by_id_or_by_rack():
    image = image_of(partition("1 2 3"), racks="a a b")

    assert who_dies(image, 1, None) == {1}
    assert who_dies(image, [1, 3], None) == {1, 3}
    assert who_dies(image, None, "a") == {1, 2}
    assert who_dies(image, 3, ["a"]) == {1, 2, 3}


# fmt: off
REFUSED = [
    pytest.param(9,    None, BrokerIdNotRegisteredError, "there is no broker 9",                      id="unknown broker"),
    pytest.param(None, "z",  InvalidRequestError,        "no broker is in rack 'z': racks are a, b",  id="unknown rack"),
    pytest.param(None, None, InvalidRequestError,        "Name broker_dies=3",                        id="nobody"),
    pytest.param([],   None, InvalidRequestError,        "Name broker_dies=3",                        id="an empty list"),
]
# fmt: on


@pytest.mark.parametrize("broker_dies, rack_dies, error, sentence", REFUSED)
def test_an_unknown_broker_or_rack_is_refused(broker_dies, rack_dies, error, sentence):
    with pytest.raises(error, match=sentence):
        who_dies(image_of(partition("1 2 3"), racks="a a b"), broker_dies, rack_dies)
