"""Which replica leads a partition: one table of hand-picked cases, then every small case there is."""

from itertools import product

import pytest

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.controller.partition_change import Election, elect_leader
from tests.builders import brokers, elect_unclean, partition, subsets

ONLINE, PREFERRED, UNCLEAN = Election.ONLINE, Election.PREFERRED, "unclean"
UNCLEAN_3 = (BrokerId(3), True)
NOBODY = (None, False)


def elected(before, eligible, election):
    """Return the leader and whether the election was unclean; all logs are alike."""
    if election == UNCLEAN:
        return elect_unclean(before, eligible)
    return elect_leader(before, eligible=eligible, election=election, suspects=frozenset()), False


# fmt: off
CASES = [  # replicas, isr, elr, lost           leader eligible election  expected
    # The leader stays while it may, wherever it stands in the assignment.
    pytest.param(("2 1 3", "1 2 3"),            1,     "1 2 3", ONLINE,    1,         id="leader-stays"),
    pytest.param(("2 1 3", "1 2 3"),            1,     "1 2 3", UNCLEAN,   1,         id="leader-stays-unclean-allowed"),
    pytest.param(("2 1 3", "1 2 3"),            1,     "1 2 3", PREFERRED, 2,         id="preferred-takes-over"),
    # The preferred leader must be in sync and eligible, or the election falls back.
    pytest.param(("2 1 3", "1 3"),              1,     "1 2 3", PREFERRED, 1,         id="preferred-not-in-sync"),
    pytest.param(("2 1 3", "1 2 3"),            1,     "1 3",   PREFERRED, 1,         id="preferred-fenced"),
    pytest.param(("2 1 3", "1", "2"),           1,     "1 2 3", PREFERRED, 1,         id="preferred-only-eligible-replica"),
    # A fenced leader gives way to the first replica in sync, in assignment order.
    pytest.param(("2 1 3", "1 2 3"),            1,     "2 3",   ONLINE,    2,         id="fenced-leader-replaced"),
    pytest.param(("2 1 3", "1 3"),              1,     "2 3",   ONLINE,    3,         id="out-of-sync-passed-over"),
    # Nobody in sync is eligible: an eligible leader replica (KIP-966), in assignment order.
    pytest.param(("2 1 3", "1", "2 3"),         None,  "2 3",   ONLINE,    2,         id="elr-leads"),
    pytest.param(("2 1 3", "1", "3"),           None,  "2 3",   UNCLEAN,   3,         id="elr-before-unclean"),
    pytest.param(("2 1 3", "1", "2"),           None,  "1 2 3", ONLINE,    1,         id="isr-before-elr"),
    # Nobody at all: offline, unless records may be lost.
    pytest.param(("2 1 3", "1"),                1,     "2 3",   ONLINE,    NOBODY,    id="offline"),
    pytest.param(("3 1 2", "1"),                1,     "2 3",   UNCLEAN,   UNCLEAN_3, id="unclean-takes-first-eligible"),
    pytest.param(("3 1 2", "1"),                1,     "",      UNCLEAN,   NOBODY,    id="unclean-never-elects-fenced-KAFKA-19522"),
    # A replica that was lost never leads, whatever list it stands in.
    pytest.param(("2 1 3", "1", "", "1"),       None,  "1",     ONLINE,    NOBODY,    id="last-in-sync-is-lost"),
    pytest.param(("2 1 3", "1 2", "", "2"),     1,     "1 2",   PREFERRED, 1,         id="preferred-is-lost"),
    pytest.param(("2 1 3", "1", "2", "1"),      None,  "1 2",   ONLINE,    2,         id="elr-after-the-last-in-sync-was-lost"),
    pytest.param(("2 1 3", "1", "", "1 2"),     None,  "1 2",   UNCLEAN,   NOBODY,    id="unclean-never-elects-lost"),
]
# fmt: on


@pytest.mark.parametrize("given, leader, eligible, election, expected", CASES)
def test_elect_leader(given, leader, eligible, election, expected):
    replicas, isr, elr, lost = (*given, "", "")[:4]
    if isinstance(expected, int):
        expected = (BrokerId(expected), False)

    before = partition(replicas, isr, leader, elr=elr, lost=lost)
    actual = elected(before, frozenset(brokers(eligible)), election)

    assert actual == expected


def test_unclean_election_never_takes_a_replica_that_was_never_made():
    offline = partition("3 1 2", isr="1", leader=None, unmade="3")

    result = elect_unclean(offline, frozenset(brokers("2 3")))

    assert result == (BrokerId(2), True)


def small_cases():
    everyone = brokers("1 2 3")
    for isr, lost, eligible, election in product(
        subsets(everyone), [frozenset(), {1}, {1, 3}], subsets(everyone), [*Election, UNCLEAN]
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
