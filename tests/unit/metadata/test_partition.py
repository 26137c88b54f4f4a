"""How one change alters a registration, and which registrations can't be."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.ids import KEEP, LOST, Offset
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from tests.builders import brokers, digest_at, disk, partition, subsets, uuid_on

BEFORE = partition("2 1 3", isr="1 2", leader=1, elr="3")

# fmt: off
CASES = [  # change                                                   after
    # The partition epoch counts every change, the leader epoch only those that name a leader.
    pytest.param(PartitionChange(),                                   partition("2 1 3", "1 2", 1,    elr="3", version=10),          id="nothing-named"),
    pytest.param(PartitionChange(leader=2),                           partition("2 1 3", "1 2", 2,    elr="3", version=10, epoch=6), id="another-leader"),
    pytest.param(PartitionChange(leader=1),                           partition("2 1 3", "1 2", 1,    elr="3", version=10, epoch=6), id="same-leader-new-leadership"),
    pytest.param(PartitionChange(leader=None),                        partition("2 1 3", "1 2", None, elr="3", version=10, epoch=6), id="offline"),
    pytest.param(PartitionChange(isr=frozenset({1})),                 partition("2 1 3", "1",   1,    elr="3", version=10),          id="isr-shrinks"),
    pytest.param(PartitionChange(isr=frozenset({1, 2, 3}), elr=frozenset()), partition("2 1 3", "1 2 3", 1, version=10),             id="isr-grows"),
    pytest.param(PartitionChange(elr=frozenset()),                    partition("2 1 3", "1 2", 1, version=10),                      id="elr-emptied"),
    pytest.param(PartitionChange(directories=(LOST, disk(1), None)),  partition("2 1 3", "1 2", 1, elr="3", version=10, lost="2", unmade="3"), id="directories"),
    pytest.param(PartitionChange(adding_replicas=(3,), removing_replicas=(2,)), partition("2 1 3", "1 2", 1, elr="3", version=10, adding="3", removing="2"), id="reassignment-begins"),
    pytest.param(PartitionChange(high_watermark=4, high_watermark_epoch=5, high_watermark_chain=digest_at(4), unclean_generation=1), partition("2 1 3", "1 2", 1, elr="3", version=10, hw=4, hw_epoch=5, unclean_generation=1), id="unclean"),
]
# fmt: on


@pytest.mark.parametrize("change, after", CASES)
def test_merge(change, after):
    assert BEFORE.merge(change) == after


def test_after_an_unclean_election_the_log_ends_where_the_new_leaders_does():
    before = replace(BEFORE, high_watermark=Offset(6), log_end_offset=Offset(9))
    change = PartitionChange(leader=2, high_watermark=4, unclean_generation=1)

    merged = [before.merge(change), *PartitionRegistration.merge_each([before], [change])]

    assert [(each.high_watermark, each.known_log_end) for each in merged] == [(4, 4)] * 2
    kept = [
        before.merge(PartitionChange()),
        *PartitionRegistration.merge_each([before], [PartitionChange()]),
    ]
    assert [(each.high_watermark, each.known_log_end) for each in kept] == [(6, 9)] * 2


def test_merge_can_replace_the_assignment():
    change = PartitionChange(
        replicas=brokers("4"), replica_uuids=(uuid_on(4),), directories=(disk(4),),
        isr=frozenset({4}), elr=frozenset(), leader=4,
    )  # fmt: skip

    assert BEFORE.merge(change) == partition("4", epoch=6, version=10)


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


def test_uuids_and_directories_run_parallel_to_replicas():
    with pytest.raises(AssertionError):
        PartitionRegistration(
            replicas=brokers("1 2"), replica_uuids=(uuid_on(1),), directories=(None, None),
            isr=frozenset({1}), leader=1, leader_epoch=0, partition_epoch=0,
        )  # fmt: skip


@pytest.mark.parametrize("broker_id, expected", [(1, True), (2, False), (3, False)])
def test_replica_is_created_between_its_creation_and_its_loss(broker_id, expected):
    assert partition("1 2 3", unmade="2", lost="3").is_created(broker_id) is expected


@pytest.mark.parametrize(
    "fields, expected", [({}, False), ({"adding": "3"}, True), ({"removing": "1"}, True)]
)
def test_partition_is_reassigning_while_replicas_come_or_go(fields, expected):
    assert partition("1 2 3", **fields).is_reassigning is expected


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


def test_target_and_original_replicas_are_all_without_those_that_go_or_come():
    moving = partition("4 5 1 2", isr="1 2", leader=1, adding="4", removing="2")

    assert (moving.target_replicas, moving.original_replicas) == ((4, 5, 1), (5, 1, 2))
