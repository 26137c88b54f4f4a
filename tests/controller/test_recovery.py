"""Which replica may lead when no in-sync one is left: named cases, then every small one."""

from itertools import product

import pytest

from kafka_on_spark.base.ids import BrokerId, Offset, PartitionEpoch
from kafka_on_spark.controller.election import recover
from kafka_on_spark.metadata.reports import ReplicaInspection
from tests.builders import KEY, digest_at, image_of, partition

UNCLEAN = {"unclean.leader.election.enable": "true"}


def inspected(
    broker_id: int, end: int, epoch: int | None = 4, *, start: int = 0, hw: int = 10, **fields
):
    """Return an inspection of a log of one epoch, as the builders' partition was planned on."""
    has_it = start < hw <= end
    given = {
        "key": KEY,
        "broker_id": BrokerId(broker_id),
        "partition_epoch": PartitionEpoch(9),
        "high_watermark": Offset(hw),
        "log_start_offset": Offset(start),
        "log_end_offset": Offset(end),
        "last_epoch": epoch if end > start else None,
        "epoch_below_high_watermark": epoch if has_it else None,
        "chain_digest": digest_at(end),
        "chain_at_high_watermark": digest_at(hw) if start <= hw <= end else None,
    }
    return ReplicaInspection(**(given | fields))


def headless(isr: str = "1", **fields):
    """Return a partition that nobody leads, whose ISR is away."""
    return partition("1 2 3", isr=isr, leader=None, **({"hw": 10, "hw_epoch": 4} | fields))


def after(image, inspections, **arguments):
    """Return the partition after the decision, or None if there is none."""
    records = recover(image, inspections, **arguments).records
    if not records:
        return None
    return image.partition(KEY).merge(records[0].change)


# fmt: off
CASES = [  # inspections                                                allowed  leader  generation
    pytest.param([inspected(2, 10)],                                    False,   2,      0,   id="has the high watermark"),
    pytest.param([inspected(2, 10), inspected(3, 12)],                  False,   3,      0,   id="the longer of two"),
    pytest.param([inspected(2, 12), inspected(3, 12)],                  False,   2,      0,   id="the first of two alike"),
    pytest.param([inspected(2, 9)],                                     False,   None,   None, id="too short"),
    pytest.param([inspected(2, 9)],                                     True,    2,      1,   id="too short, but allowed"),
    pytest.param([inspected(2, 12, 3)],                                 False,   None,   None, id="another epoch below the high watermark"),
    pytest.param([inspected(2, 12, 3)],                                 True,    2,      1,   id="another epoch, but allowed"),
    pytest.param([inspected(2, 99, 3), inspected(3, 5, 4)],             True,    3,      1,   id="the later epoch before the longer log"),
    pytest.param([inspected(2, 99, 3), inspected(3, 10)],               True,    3,      0,   id="a proven one before an unclean one"),
    pytest.param([inspected(2, 12, start=1)],                           False,   None,   None, id="begins above the log start"),
    pytest.param([inspected(2, 12, partition_epoch=PartitionEpoch(8))], True,    None,   None, id="planned on an older image"),
    pytest.param([inspected(2, 12, hw=9)],                              True,    None,   None, id="tested for an older high watermark"),
    pytest.param([inspected(7, 12)],                                    True,    None,   None, id="not assigned"),
    pytest.param([],                                                    True,    None,   None, id="nobody answers"),
]
# fmt: on


@pytest.mark.parametrize("inspections, allowed, leader, generation", CASES)
def test_which_replica_leads(inspections, allowed, leader, generation):
    image = image_of(headless(), fenced="1", configs=UNCLEAN if allowed else {})

    found = after(image, inspections)

    assert (None if found is None else found.leader) == leader
    if found is not None:
        assert found.isr == {leader}
        assert found.unclean_generation == generation
        assert (found.high_watermark == 10) or generation == 1


def test_an_unclean_leader_that_ends_below_the_log_start_begins_there_with_nothing():
    image = image_of(headless(start=5), fenced="1", configs=UNCLEAN)

    empty, whole = after(image, [inspected(2, 4)]), after(image, [inspected(2, 5)])

    assert (empty.high_watermark, empty.begins_empty) == (5, True)
    assert (whole.high_watermark, whole.begins_empty) == (5, False)


def test_the_cause_says_what_is_lost():
    image = image_of(headless(), fenced="1", configs=UNCLEAN)

    (record,) = recover(image, [inspected(2, 7)]).records

    assert record.cause == "broker 2: unclean election, offsets 7 to 9 are lost"


def test_in_every_small_case_a_clean_leader_has_all_that_is_committed():
    """Three replicas, ends around the high watermark, two epochs below it, allowed or not."""
    checked = 0
    for ends, epochs, allowed in product(
        product((1, 2, 3), repeat=2), product((3, 4), repeat=2), (False, True)
    ):
        image = image_of(headless(hw=2), fenced="1", configs=UNCLEAN if allowed else {})
        inspections = [
            inspected(2, ends[0], epochs[0], hw=2),
            inspected(3, ends[1], epochs[1], hw=2),
        ]
        complete = {each.broker_id for each in inspections if each.epoch_below_high_watermark == 4}
        checked += 1

        found = after(image, inspections)

        if complete:
            assert found.leader in complete
            assert (found.unclean_generation, found.high_watermark) == (0, 2)
        elif not allowed:
            assert found is None
        else:
            end = {2: ends[0], 3: ends[1]}[found.leader]
            assert (found.unclean_generation, found.high_watermark) == (1, end)
    assert checked == 72


@pytest.mark.parametrize("end", [5, 9, 10, 12])
def test_what_an_unclean_leader_has_is_committed_with_its_chain(end):
    image = image_of(headless(start=5), fenced="1", configs=UNCLEAN)

    led = after(image, [inspected(2, end, 3, start=2)])

    assert (led.high_watermark, led.high_watermark_epoch) == (end, 3)
    assert led.high_watermark_chain == digest_at(end)
