"""Where a consumer begins in a partition, and what elections and retention leave of a position."""

import pytest

from kafka_on_spark.base.errors import (
    HistoryExpiredError,
    InvalidConfigError,
    LogTruncatedError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.base.ids import KEEP, Offset, PartitionKey, TopicId
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.groups.offsets import (
    Position,
    added_since,
    begin,
    cuts_after,
    revised,
    saved_positions,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset, PartitionChange
from kafka_on_spark.metadata.records import MetadataBatch, PartitionChangeRecord, Stamp
from tests.builders import image_of_topics, partition
from tests.controller.added_again import AddedAgain, added_again, cut_short

TOPIC = TopicId("id of orders")


def key(number=0):
    return PartitionKey(TOPIC, number)


def image(*partitions, saved=None):
    groups = {
        ("g", key(number)): GroupOffset(offset=Offset(offset), leader_epoch=None)
        for number, offset in (saved or {}).items()
    }
    return image_of_topics({"orders": partitions}, group_offsets=groups)


def begun(image, number=0, reset="latest"):
    return begin(image, key(number), group="g", reset=reset).offset


def added(image):
    keys = [key(number) for number in image.topic("orders").partitions]
    return sorted(each.partition for each in added_since(image, keys, "g"))


def settled(image, offset, generation=0, reset="latest", cut=None):
    return revised(
        image,
        key(),
        Position(Offset(offset), generation),
        reset=reset,
        find_cuts=lambda generations: {} if cut is None else dict.fromkeys(generations, cut),
    )


def test_a_consumer_begins_at_its_groups_offset():
    assert begun(image(partition("1", hw=9, start=2), saved={0: 5})) == 5


@pytest.mark.parametrize("reset,offset", [("earliest", 2), ("latest", 9)])
def test_without_an_offset_it_begins_as_it_is_told(reset, offset):
    assert begun(image(partition("1", hw=9, start=2)), reset=reset) == offset


def test_without_an_offset_it_may_have_to_be_told():
    with pytest.raises(OffsetOutOfRangeError, match="set the group's offset, or give"):
        begun(image(partition("1", hw=9)), reset="none")


def test_a_partition_was_added_since_its_group_has_saved_lower_ones():
    three = [partition("1", hw=9)] * 3

    assert added(image(*three)) == []
    assert added(image(*three, saved={0: 5})) == [1, 2]
    assert added(image(*three, saved={1: 5})) == [2]
    assert added(image(*three, saved={2: 5})) == []


@pytest.mark.parametrize("offset", [2, 5, 9, 12])
def test_a_position_within_the_log_stays(offset):
    assert settled(image(partition("1", hw=9, leo=12, start=2)), offset).offset == offset


@pytest.mark.parametrize("offset", [1, 13])
@pytest.mark.parametrize("reset,after", [("earliest", 2), ("latest", 9)])
def test_a_position_out_of_range_is_reset(offset, reset, after):
    now = image(partition("1", hw=9, leo=12, start=2))

    assert settled(now, offset, reset=reset).offset == after
    with pytest.raises(OffsetOutOfRangeError, match="between its log start 2 and its log end 12"):
        settled(now, offset, reset="none")


# fmt: off
AFTER_ELECTIONS = [
    (7, 5, 5),       # records below it were lost: it goes back to where they were cut
    (7, 7, 7),
    (7, 8, 7),       # only others were
    (7, None, 7),    # nobody can tell: what is committed now ends at 9
    (12, None, 9),
    (2, 1, 2),       # it has read nothing that is there
]
# fmt: on


@pytest.mark.parametrize("offset,cut,after", AFTER_ELECTIONS)
def test_after_an_unclean_election_a_position_goes_back_to_the_cut(offset, cut, after):
    now = image(partition("1", hw=9, start=2, unclean_generation=3))

    found = settled(now, offset, generation=2, cut=cut)

    assert found == Position(after, 3)


def test_an_unclean_election_fails_a_consumer_that_may_not_be_reset():
    now = image(partition("1", hw=9, unclean_generation=3))

    with pytest.raises(LogTruncatedError, match="lost the records from offset 5 on"):
        settled(now, 7, generation=2, cut=5, reset="none")


def test_where_the_history_of_elections_is_gone_what_is_there_is_read_again():
    now = image(partition("1", hw=9, start=2, unclean_generation=3))

    def find(generations):
        raise HistoryExpiredError("gone")

    def found(reset):
        return revised(now, key(), Position(Offset(7), 2), reset=reset, find_cuts=find)

    assert found("latest") == Position(Offset(2), 3)
    with pytest.raises(LogTruncatedError):
        found("none")


def test_cuts_count_that_came_after_the_position():
    def elected(generation, end, number=0):
        change = PartitionChange(
            unclean_generation=generation,
            high_watermark=end,
            high_watermark_epoch=None,
            high_watermark_chain="0" * 32,
        )
        return record(change, number)

    def record(change, number=0):
        return PartitionChangeRecord(
            topic_id=TOPIC,
            partition=number,
            change=change,
            topic="orders",
            leader_epoch=1,
            partition_epoch=1,
        )

    records = [
        elected(1, 3),
        elected(2, 30),
        elected(2, 1, number=1),
        elected(3, 20),
        record(PartitionChange(leader=1)),
    ]
    batch = MetadataBatch(base_offset=Offset(0), stamp=Stamp(time_ms=0), records=tuple(records))
    pieces = [(MetadataImage(), [batch])]

    assert cuts_after(pieces, {key(): 1}).get(key()) == 20
    assert cuts_after(pieces, {key(): 3}).get(key()) is None
    assert records[-1].change.high_watermark is KEEP


def test_a_consumer_begins_anew_in_a_partition_that_was_removed_and_added_again():
    world = added_again(image(partition("1"), partition("1", hw=9)), "orders", 20)
    old = Position(Offset(9), 0)

    def after(reset):
        return revised(
            world.image,
            key(1),
            old,
            reset=reset,
            find_cuts=lambda generations: cuts_after(world.pieces, generations),
        )

    again = world.image.partition(key(1))
    assert after("latest") == Position(Offset(0), again.unclean_generation)
    with pytest.raises(LogTruncatedError, match="orders-1 has lost the records from offset 0 on"):
        after("none")
    assert not saved_positions(world.image, "g", {key(1): old}, None, 0)


def test_an_unclean_election_after_a_partition_was_added_again_cuts_where_it_says():
    world = added_again(image(partition("1"), partition("1", hw=9)), "orders", 20)
    again = world.image.partition(key(1))
    change = PartitionChange(
        unclean_generation=again.unclean_generation + 1,
        high_watermark=15,
        high_watermark_epoch=0,
        high_watermark_chain="0" * 32,
    )
    record = PartitionChangeRecord(
        topic_id=TOPIC,
        partition=1,
        change=change,
        topic="orders",
        leader_epoch=0,
        partition_epoch=1,
    )

    pieces = world.replay(record).pieces

    assert cuts_after(pieces, {key(1): again.unclean_generation}).get(key(1)) == 15
    assert cuts_after(pieces, {key(1): 0}).get(key(1)) == 0


def test_of_the_metadata_log_no_more_is_read_than_back_to_the_generation_of_a_position():
    cut = cut_short(AddedAgain(image(partition("1", hw=12)), ()), "orders", at=5)
    again = cut_short(cut, "orders", at=4)

    def pieces():
        yield again.image, []
        yield cut.image, again.batches[1:]
        yield image(partition("1", hw=12)), cut.batches
        raise AssertionError("nothing before is of interest")

    assert cuts_after(pieces(), {key(): 2}).get(key()) is None
    assert cuts_after(pieces(), {key(): 1}).get(key()) == 4
    assert cuts_after(pieces(), {key(): 0}).get(key()) == 4


def test_a_position_from_before_an_unclean_election_is_not_saved():
    now = image(partition("1", hw=9, unclean_generation=1), partition("1", hw=9), saved={1: 4})
    positions = {key(0): Position(Offset(5), 0), key(1): Position(Offset(5), 0)}

    records = saved_positions(now, "g", positions, None, 0)

    assert [(each.partition, each.offset) for each in records] == [(1, 5)]
    assert not saved_positions(now, "g", {key(1): Position(Offset(4), 0)}, None, 0)


GIVEN = {
    "group": "g",
    "auto_offset_reset": "latest",
    "max_poll_records": 10,
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 5,
    "client_rack": None,
}


@pytest.mark.parametrize(
    "wrong",
    [{"auto_offset_reset": "newest"}, {"max_poll_records": 0}, {"auto_commit_interval_ms": -1}],
)
def test_settings_that_are_wrong_are_refused(wrong):
    with pytest.raises(InvalidConfigError, match=next(iter(wrong))):
        ConsumerSettings(**GIVEN | wrong)
