"""How one change alters a registration, which can't be, and the map of a topic's registrations."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.ids import KEEP
from kafka_on_spark.metadata.partition import (
    CHUNK_SIZE,
    MERGED_AT_ONCE_MIN,
    PartitionChange,
    PartitionMap,
    PartitionMapDraft,
)
from tests.builders import brokers, partition, partition_map, subsets
from tests.examples import many


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


ONE, TWO = partition("1 2 3"), partition("2 3 1", isr="2 3")
# Around the edges of chunks, and far from all others.
NUMBERS = [0, 1, 2, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 5 * CHUNK_SIZE, 2**31 - 1]
steps = st.lists(
    st.tuples(st.sampled_from(NUMBERS), st.sampled_from([ONE, TWO, None])), max_size=12
)


def changed(map_, change):
    draft = PartitionMapDraft(map_)
    for number, value in change:
        draft.put(number, value)
    return draft.finish()


@settings(max_examples=many(150))
@given(st.lists(steps, max_size=4))
def test_map_is_what_a_dict_would_be_after_any_changes(drafts):
    map_, expected = PartitionMap(), {}
    for change in drafts:
        before, was = map_, dict(expected)
        map_ = changed(map_, change)
        for number, value in change:
            expected.pop(number, None)
            if value is not None:
                expected[number] = value

        assert map_ == expected
        assert len(map_) == len(expected)
        assert list(map_) == sorted(expected)
        assert list(map_.items()) == sorted(expected.items())
        assert list(map_.values()) == [expected[each] for each in sorted(expected)]
        assert [number in map_ for number in NUMBERS] == [each in expected for each in NUMBERS]
        assert before == was


# fmt: off
UNSETTLED = [
    pytest.param(partition("1 2 3", leader=None),           id="no-leader"),
    pytest.param(partition("1 2 3", leader=2),              id="another-leader"),
    pytest.param(partition("1 2 3", isr="1 2"),             id="out-of-sync"),
    pytest.param(partition("1 2 3", isr="1 2", elr="3"),    id="eligible"),
    pytest.param(partition("1 2 3", adding="3"),            id="added"),
    pytest.param(partition("1 2 3", removing="3"),          id="removed"),
    pytest.param(partition("1 2 3", lost="3"),              id="lost"),
    pytest.param(partition("1 2 3", hw=1, leo=2),           id="not-committed"),
]
SETTLED = [
    pytest.param(partition("1 2 3"),                        id="healthy"),
    pytest.param(partition("1 2 3", unmade="1 2 3"),        id="not-made-yet"),
    pytest.param(partition("3", hw=7, leo=7),               id="one-replica"),
]
# fmt: on


@pytest.mark.parametrize("found", UNSETTLED)
def test_partition_with_something_to_do_needs_work(found):
    map_ = partition_map({0: ONE, 1: found, CHUNK_SIZE: found})

    assert list(map_.needing_work()) == [(1, found), (CHUNK_SIZE, found)]


@pytest.mark.parametrize("found", SETTLED)
def test_partition_with_nothing_to_do_needs_no_work(found):
    assert list(partition_map({0: found}).needing_work()) == []


def test_merged_at_once_must_hold_as_merged_alone():
    bad = PartitionChange(leader=4)
    draft = PartitionMapDraft(partition_map(dict.fromkeys(range(MERGED_AT_ONCE_MIN), ONE)))

    with pytest.raises(AssertionError):
        ONE.merge(bad)
    with pytest.raises(AssertionError):
        draft.merge([(number, bad) for number in range(MERGED_AT_ONCE_MIN)])


def test_partitions_that_a_broker_has_a_replica_of_are_found_though_it_is_out_of_sync():
    far = 3 * CHUNK_SIZE + 5
    base = partition_map(dict.fromkeys([0, 1, CHUNK_SIZE, far], ONE))
    draft = PartitionMapDraft(base)
    draft.put(far, partition("1 2 4", isr="1"))
    after = draft.finish()

    found = {
        each: [number for number, _ in after.where("replicas", frozenset({each}))]
        for each in (1, 3, 4, 5)
    }

    assert found == {1: [0, 1, CHUNK_SIZE, far], 3: [0, 1, CHUNK_SIZE], 4: [far], 5: []}
    assert list(base.where("replicas", frozenset({4}))) == []
    visited = [chunk for chunk in after._chunks.values() if 4 in chunk.brokers("replicas")]
    assert len(visited) == 1  # of three
