"""Logs that diverge above the high watermark: a new epoch of the same leader, and which member leaves the ISR."""

import pytest

from kafka_on_spark.base.ids import KEEP, LeaderEpoch
from kafka_on_spark.controller.isr import conclude, raise_epoch
from tests.builders import image_of, partition, report, seen, uuid_on


def diverged(broker_id, **fields):
    """Return a report on a follower whose log diverges from its leader's."""
    return seen(broker_id, 4, is_matched=False, is_diverged=True, **fields)


def raised(*followers, isr="1 2 3", elr="", minimum=1, leader=None, **fields):
    image = image_of(
        partition("1 2 3 4", isr=isr, elr=elr, hw=2, hw_epoch=5, leo=4),
        ids="1 2 3 4",
        configs={"min.insync.replicas": str(minimum)},
    )
    return raise_epoch(image, report(leader or seen(1, 4), *followers, **fields))


# fmt: off
LEAVING = [  # diverged minimum  ISR afterwards
    pytest.param("2",    1,      {1, 3},  id="one leaves"),
    pytest.param("2",    2,      {1, 3},  id="and leaves the minimum"),
    pytest.param("2",    3,      KEEP,    id="it stays where fewer than the minimum would be left"),
    pytest.param("2 3",  1,      {1},     id="two leave"),
    pytest.param("2 3",  2,      {1, 3},  id="one of two may leave"),
]
# fmt: on


@pytest.mark.parametrize("names, minimum, isr", LEAVING)
def test_a_diverged_member_leaves_the_isr_as_long_as_its_minimum_is_left(names, minimum, isr):
    record = raised(*(diverged(int(each)) for each in names.split()), minimum=minimum)

    assert record.change.leader == 1
    assert record.leader_epoch == 6
    assert record.partition_epoch == 10
    assert record.change.isr == isr
    assert "its log diverges from broker 1's above the high watermark 2 in epoch 5" in record.cause


# fmt: off
ELIGIBLE = [  # diverged ISR    ELR    ELR afterwards
    pytest.param("3",    "1 2", "3 4", {4},   id="one leaves"),
    pytest.param("3 4",  "1 2", "3 4", {4},   id="one of two may leave"),
    pytest.param("2 3",  "1 2", "3 4", {4},   id="an in-sync member stays below the minimum"),
    pytest.param("2",    "1",   "2",   KEEP,  id="it stays where fewer than the minimum would be left"),
]
# fmt: on


@pytest.mark.parametrize("names, isr, elr, left", ELIGIBLE)
def test_an_eligible_diverged_replica_leaves_the_elr_and_is_not_bad(names, isr, elr, left):
    """Its leader may be the one that was rolled back (found by simulation)."""
    followers = [diverged(int(each)) for each in names.split()]
    record = raised(*followers, isr=isr, elr=elr, minimum=3)

    assert record.change.leader == 1
    assert record.leader_epoch == 6
    assert (record.change.isr, record.change.elr) == (KEEP, left)


# fmt: off
NOTHING = [
    pytest.param({"followers": [seen(2, 4)]},                                  id="no log diverges"),
    pytest.param({"followers": [diverged(4)]},                                   id="the diverged replica is neither in sync nor eligible"),
    pytest.param({"followers": [diverged(2, replica_uuid=uuid_on(9))]},          id="it is another replica"),
    pytest.param({"followers": [diverged(2)], "version": 8},                     id="the partition has changed since"),
    pytest.param({"followers": [diverged(2)], "epoch": LeaderEpoch(4)},          id="of an older leadership"),
    pytest.param({"followers": [diverged(2)], "leader": seen(3, 4)},             id="of another leader"),
    pytest.param({"followers": [diverged(2)], "leader": seen(1, 4, fence=4)},    id="the leader has not adopted it"),
    pytest.param({"followers": [diverged(2)], "leader": seen(1, 4, error_code=56)}, id="the leader was not read"),
]
# fmt: on


@pytest.mark.parametrize("inspected", NOTHING)
def test_no_epoch_is_raised_where(inspected):
    assert raised(*inspected.pop("followers"), **inspected) is None


def test_a_decision_that_raises_the_epoch_counts_no_log_end():
    image = image_of(partition("1 2", hw=2, hw_epoch=5), configs={"min.insync.replicas": "2"})

    decided = conclude(image, [report(seen(1, 4), diverged(2))])

    assert decided.response == 1
    assert all(getattr(each, "high_watermark", None) is None for each in decided.records)
