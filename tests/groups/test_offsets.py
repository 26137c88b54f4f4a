"""Offsets of groups by request: which may be set, what goes, and what is refused."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    GroupIdNotFoundError,
    InvalidGroupIdError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.groups.offsets import (
    alter_group_offsets,
    delete_group,
    save_offsets,
    saved_partitions,
)
from kafka_on_spark.metadata.image import GroupOffset
from tests.builders import KEY, TOPIC_ID, image_of, partition
from tests.committing import replay

ONE = PartitionKey(TOPIC_ID, 1)


def image(**groups):
    """Return two partitions with the offsets 2 to 8; groups by their offsets of each."""
    saved = {
        (name, PartitionKey(TOPIC_ID, number)): GroupOffset(offset=offset, leader_epoch=None)
        for name, offsets in groups.items()
        for number, offset in enumerate(offsets)
        if offset is not None
    }
    registration = partition("1", hw=8, hw_epoch=4, start=2, epoch=5)
    return replace(image_of(registration, registration), group_offsets=saved)


def positions(of, group):
    return {
        key.partition: place.offset
        for (name, key), place in of.group_offsets.items()
        if name == group
    }


def test_offsets_are_set_for_a_group_that_may_be_new():
    before = image(g=(3, None))

    result = alter_group_offsets(before, "g", {KEY: 2, ONE: 8})
    other = alter_group_offsets(before, "new", {KEY: 5})

    assert result.response == {KEY: 2, ONE: 8}
    assert positions(replay(before, result), "g") == {0: 2, 1: 8}
    # The epoch is known of the last committed record only.
    assert [record.leader_epoch for record in result.records] == [None, 4]
    assert result.records[0].cause == "group 'g' set to 2 of orders-0 by request"
    assert positions(replay(before, other), "new") == {0: 5}


def test_an_offset_where_the_group_stands_is_no_record():
    result = alter_group_offsets(image(g=(3, 4)), "g", {KEY: 3, ONE: 5})

    assert [record.partition for record in result.records] == [1]
    assert result.response == {KEY: 3, ONE: 5}


WEEK_MS = 7 * 24 * 3600 * 1000


@pytest.mark.parametrize("age_ms, is_saved", [(WEEK_MS // 2 - 1, False), (WEEK_MS // 2, True)])
def test_an_offset_where_the_group_stands_is_saved_again_before_it_expires(age_ms, is_saved):
    before = image(g=(3, 4))
    later = replace(before, time_ms=age_ms)

    assert len(save_offsets(before, "g", {KEY: 3}, None, age_ms).records) == is_saved
    assert len(save_offsets(later, "g", {KEY: 3}, None, 0).records) == is_saved
    assert len(alter_group_offsets(later, "g", {KEY: 3, ONE: 5}).records) == 1 + is_saved


@pytest.mark.parametrize("offset", [-1, 0, 1, 9])
def test_an_offset_that_no_query_could_start_from_is_refused_with_all_others(offset):
    with pytest.raises(OffsetOutOfRangeError) as caught:
        alter_group_offsets(image(), "g", {ONE: 4, KEY: offset})

    assert str(caught.value) == (
        f"group 'g' can't stand at offset {offset} of orders-0: give one from its log start 2 to"
        " its high watermark 8"
    )


def test_a_partition_that_is_not_there_is_refused():
    with pytest.raises(UnknownTopicOrPartitionError, match="no such partition"):
        alter_group_offsets(image(), "g", {PartitionKey(TOPIC_ID, 7): 4})


@pytest.mark.parametrize("group", ["", None, 3])
def test_a_name_that_no_group_can_have_is_refused(group):
    for decide in (
        lambda: alter_group_offsets(image(), group, {}),
        lambda: delete_group(image(), group),
    ):
        with pytest.raises(InvalidGroupIdError, match="a group's name can't be"):
            decide()


def test_a_group_goes_with_all_of_its_offsets_and_others_stay():
    before = image(g=(3, 4), h=(5, 6))

    result = delete_group(before, "g")

    assert result.response == [KEY, ONE]
    assert positions(replay(before, result), "g") == {}
    assert positions(replay(before, result), "h") == {0: 5, 1: 6}


def test_offsets_of_some_partitions_go():
    before = image(g=(3, 4), h=(5, None))

    assert delete_group(before, "g", [ONE]).response == [ONE]
    assert positions(replay(before, delete_group(before, "g", [ONE])), "g") == {0: 3}
    assert delete_group(before, "h", [ONE]).records == []


def test_a_group_that_has_committed_nothing_does_not_exist():
    for decide in (delete_group, saved_partitions):
        with pytest.raises(GroupIdNotFoundError) as caught:
            decide(image(g=(3, 4)), "h")

        assert str(caught.value) == (
            "there is no consumer group 'h': it exists once it has committed an offset (known: g)"
        )


def test_an_offset_of_before_an_unclean_election_is_set_again():
    """Whatever the generation: other records may stand there now."""
    here = image_of(partition("1", hw=8, start=2, unclean_generation=2))
    for generation in (0, 1, 2, 3):
        known = GroupOffset(offset=Offset(3), leader_epoch=None, unclean_generation=generation)
        before = replace(here, group_offsets={("g", KEY): known})
        again = alter_group_offsets(before, "g", {KEY: 3}).records
        assert len(again) == (generation != 2)
