"""Who leads: from ISR or ELR, by proof, uncleanly, and the preferred leader."""

from itertools import product

import pytest

from kafka_on_spark.base.ids import BrokerId, Offset, PartitionEpoch
from kafka_on_spark.controller.election import elect_by_inspections, elect_leader, why_not_led
from kafka_on_spark.metadata.reports import ReplicaInspection
from tests.builders import KEY, brokers, digest_at, elect_unclean, image_of, partition, subsets

ONLINE, PREFERRED, UNCLEAN = "online", "preferred", "unclean"


def elected(before, eligible, election):
    """Return the leader and whether the election was unclean; all logs are alike."""
    if election == UNCLEAN:
        return elect_unclean(before, eligible)
    return elect_leader(before, eligible, preferred=election == PREFERRED), False


def test_unclean_election_never_takes_a_replica_that_was_never_made():
    offline = partition("3 1 2", isr="1", leader=None, unmade="3")

    result = elect_unclean(offline, frozenset(brokers("2 3")))

    assert result == (BrokerId(2), True)


# fmt: off
NOT_LED = [  # partition, fenced, preferred, why
    pytest.param(partition("1 2"),                                 "",  False, None,                                               id="led"),
    pytest.param(partition("1 2", leader=2),                       "",  True,  "broker 1 may lead",                                id="may"),
    pytest.param(partition("1 2", leader=1),                       "",  True,  None,                                               id="preferred-leads"),
    pytest.param(partition("1 2", isr="2", leader=2),              "",  True,  "broker 1 is not in sync",                          id="lags"),
    pytest.param(partition("1 2", isr="2", leader=2),              "1", True,  "broker 1 is fenced",                               id="preferred-fenced"),
    pytest.param(partition("1 2", isr="2", leader=None),           "2", False, "broker 1 has a log that can't be read; broker 2 is fenced", id="unread"),
    pytest.param(partition("1 2", isr="2", leader=None, unmade="1"), "2", False, "broker 1 has no replica: it is lost, or was never made", id="unmade"),
]
# fmt: on


@pytest.mark.parametrize("registration, fenced, preferred, why", NOT_LED)
def test_why_a_partition_is_not_led_as_an_election_asks_for(registration, fenced, preferred, why):
    found = why_not_led(image_of(registration, fenced=fenced), KEY, preferred=preferred)

    assert found == why if why is None else found.startswith(why)


def small_cases():
    everyone = brokers("1 2 3")
    for isr, lost, eligible, election in product(
        subsets(everyone),
        [frozenset(), {1}, {1, 3}],
        subsets(everyone),
        [ONLINE, PREFERRED, UNCLEAN],
    ):
        rest = [each for each in everyone if each not in isr]
        for elr, leader in product(subsets(rest), [None, *sorted(isr)]):
            words = (" ".join(map(str, each)) for each in (isr, elr, lost))
            isr_text, elr_text, lost_text = words
            before = partition("2 1 3", isr_text, leader, elr=elr_text, lost=lost_text)
            yield before, frozenset(eligible), election


def test_every_election_of_three_replicas_is_safe():
    """Safety holds for all small cases, not only for those somebody thought of."""
    checked = 0
    for before, eligible, election in small_cases():
        leader, is_unclean = elected(before, eligible, election)
        checked += 1
        able = frozenset(each for each in eligible if before.is_created(each))
        complete = before.isr | before.elr
        assert leader is None or leader in able
        assert is_unclean == (leader is not None and leader not in complete)
        if is_unclean:
            assert election == UNCLEAN
        if complete & able:
            assert leader in complete & able  # nobody stays offline needlessly
        if before.isr & able:
            assert leader in before.isr
        if election is not PREFERRED and before.leader in able:
            assert leader == before.leader
    assert checked == 3888


ALLOWED = {"unclean.leader.election.enable": "true"}


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
    records = elect_by_inspections(image, inspections, **arguments).records
    if not records:
        return None
    return image.partition(KEY).merge(records[0].change)


# fmt: off
RECOVERIES = [  # inspections                                                allowed  leader  generation
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


@pytest.mark.parametrize("inspections, allowed, leader, generation", RECOVERIES)
def test_which_replica_leads(inspections, allowed, leader, generation):
    image = image_of(headless(), fenced="1", configs=ALLOWED if allowed else {})

    found = after(image, inspections)

    assert (None if found is None else found.leader) == leader
    if found is not None:
        assert found.isr == {leader}
        assert found.unclean_generation == generation
        assert (found.high_watermark == 10) or generation == 1


def test_an_unclean_leader_that_ends_below_the_log_start_begins_there_with_nothing():
    image = image_of(headless(start=5), fenced="1", configs=ALLOWED)

    empty, whole = after(image, [inspected(2, 4)]), after(image, [inspected(2, 5)])

    assert (empty.high_watermark, empty.begins_empty) == (5, True)
    assert (whole.high_watermark, whole.begins_empty) == (5, False)


def test_in_every_small_case_a_clean_leader_has_all_that_is_committed():
    """Three replicas, ends around the high watermark, two epochs below it, allowed or not."""
    checked = 0
    for ends, epochs, allowed in product(
        product((1, 2, 3), repeat=2), product((3, 4), repeat=2), (False, True)
    ):
        image = image_of(headless(hw=2), fenced="1", configs=ALLOWED if allowed else {})
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
    image = image_of(headless(start=5), fenced="1", configs=ALLOWED)

    led = after(image, [inspected(2, end, 3, start=2)])

    assert (led.high_watermark, led.high_watermark_epoch) == (end, 3)
    assert led.high_watermark_chain == digest_at(end)
