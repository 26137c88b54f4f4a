"""What a subscription and positions mean in an image: partitions, offsets, times, groups."""

import json

import pytest

from kafka_on_spark.base.errors import (
    HistoryExpiredError,
    InconsistentClusterIdError,
    InconsistentTopicIdError,
    InvalidRequestError,
    LogTruncatedError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicPartition
from kafka_on_spark.consume.options import parse_source
from kafka_on_spark.consume.query_batch import (
    DataLoss,
    Group,
    Offsets,
    StreamOffset,
    Timestamps,
    resolve,
    save_group,
)
from kafka_on_spark.consume.subscription import Assign, Subscribe, partitions_of
from kafka_on_spark.groups.offsets import EARLIEST, LATEST, cuts_after
from kafka_on_spark.metadata.image import GroupOffset
from tests.builders import by_name, image_of_topics, partition
from tests.controller.added_again import AddedAgain, added_again, appended, cut_short

IMAGE = image_of_topics(
    {
        "a": [partition("1", start=2, hw=10), partition("1", hw=20)],
        "ab": [partition("1", hw=5)],
        "c": [partition("1", hw=7)],
    }
)
ALL_OF_A = [TopicPartition("a", 0), TopicPartition("a", 1)]

# fmt: off
MISSING = [
    (Subscribe(("a", "x")),                     "there is no topic 'x'",            ALL_OF_A),
    (Assign({"a": (1,), "x": (0,)}),            "there is no topic 'x'",            ALL_OF_A[1:]),
    (Assign({"a": (1, 2)}),                     "topic 'a' has no partition 2: it has 0 to 1", ALL_OF_A[1:]),
]
POSITIONS = [
    (EARLIEST,                                  {0: 2, 1: 0}),
    (LATEST,                                    {0: 10, 1: 20}),
    (Offsets(by_name({"a": {0: 5, 1: EARLIEST}})),       {0: 5, 1: 0}),
    (Offsets(by_name({"a": {0: LATEST, 1: 19}})),        {0: 10, 1: 19}),
    (Timestamps(100),                           {0: 100, 1: 101}),
    (Timestamps(by_name({"a": {0: 7, 1: 3}})),           {0: 7, 1: 4}),
]
UNMATCHED = [
    (Offsets(by_name({"a": {0: 5}})),                    "If startingOffsets contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for earliest. Specified: ['a-0'] Assigned: ['a-0', 'a-1']"),
    (Offsets(by_name({"a": {0: 5, 1: 1, 2: 1}})),        "Specified: ['a-0', 'a-1', 'a-2'] Assigned: ['a-0', 'a-1']"),
    (Offsets(by_name({"b": {0: 5}})),                    "Specified: ['b-0'] Assigned: ['a-0', 'a-1']"),
    (Timestamps(by_name({"a": {1: 5}})),                 "If startingOffsetsByTimestamp contains specific offsets, you must specify all topics. Specified: ['a-1'] Assigned: ['a-0', 'a-1']"),
]
# fmt: on


def at_times(questions):
    """Answer with the time itself, plus the partition's number."""
    return [Offset(timestamp_ms + key.partition) for key, timestamp_ms in questions]


def nothing_found(questions):
    return [None for _ in questions]


def resolved(
    positions,
    image=IMAGE,
    wanted=ALL_OF_A,
    look_up=at_times,
    find_cuts=lambda generations: {},
    *,
    fails_on_data_loss=True,
):
    return resolve(
        image,
        wanted,
        positions,
        option="startingOffsets",
        look_up=look_up,
        loss=DataLoss(fails_on_data_loss, find_cuts),
    )


@pytest.mark.parametrize("subscription, sentence, rest", MISSING)
def test_what_is_named_must_be_there_or_is_left_out(subscription, sentence, rest):
    with pytest.raises(UnknownTopicOrPartitionError, match=sentence):
        partitions_of(IMAGE, subscription)

    assert partitions_of(IMAGE, subscription, fails_on_missing=False) == rest


@pytest.mark.parametrize("positions, expected", POSITIONS)
def test_positions_become_offsets_of_one_cut(positions, expected):
    offset = resolved(positions)

    assert offset.positions == by_name({"a": expected})
    assert offset.cut.metadata_offset == 100
    assert offset.cut.topic_ids == {"a": "id of a"}


@pytest.mark.parametrize("positions, sentence", UNMATCHED)
def test_specific_positions_name_every_partition(positions, sentence):
    with pytest.raises(InvalidRequestError) as caught:
        resolved(positions)

    assert sentence in str(caught.value)


def test_a_time_that_no_record_has_is_refused_or_the_latest_as_the_strategy_says():
    with pytest.raises(InvalidRequestError) as caught:
        resolved(Timestamps(9), look_up=nothing_found)
    found = resolved(Timestamps(9, is_latest_if_none=True), look_up=nothing_found)

    assert str(caught.value) == (
        "No offset matched from request of topic-partition a-0 and timestamp 9."
    )
    assert found.positions == by_name({"a": {0: 10, 1: 20}})


# fmt: off
GROUPS = [
    ({},                         LATEST,   {0: 10, 1: 20}),
    ({},                         EARLIEST, {0: 2,  1: 0}),
    ({("g", "a", 0): 4, ("g", "a", 1): 6}, LATEST, {0: 4, 1: 6}),
    ({("g", "a", 0): 4},         LATEST,   {0: 4,  1: 0}),   # the other partition was found later
    ({("h", "a", 0): 4},         LATEST,   {0: 10, 1: 20}),  # another group's
    ({("g", "c", 0): 4},         LATEST,   {0: 10, 1: 20}),  # of a topic that is not read
]
# fmt: on


@pytest.mark.parametrize("committed, default, expected", GROUPS)
def test_a_groups_offsets_are_started_from(committed, default, expected):
    groups = {
        (group, PartitionKey(f"id of {topic}", number)): GroupOffset(
            offset=offset, leader_epoch=None
        )
        for (group, topic, number), offset in committed.items()
    }
    image = image_of_topics(
        {"a": list(IMAGE.topic("a").partitions.values()), "c": [partition("1")]},
        group_offsets=groups,
    )

    found = resolved(Group("g", default), image)

    assert found.positions == by_name({"a": expected})


# fmt: off
LOST = [  # unclean elections when the group was saved and now, its offset, and what it would read
    pytest.param(0, 1, 5,  True,  id="it had read what was lost"),
    pytest.param(1, 2, 12, True,  id="it stands behind what is left"),
    pytest.param(1, 1, 12, True,  id="it stands behind the end without an election"),
    pytest.param(1, 1, 5,  False, id="it was saved after the election"),
    pytest.param(0, 1, 2,  False, id="it had read nothing"),
]
# fmt: on


@pytest.mark.parametrize("then, now, offset, is_told", LOST)
def test_a_group_is_told_of_an_unclean_election_since_it_was_saved(then, now, offset, is_told):
    saved = GroupOffset(offset=offset, leader_epoch=None, unclean_generation=then)
    registration = partition("1", start=2, hw=10, unclean_generation=now)
    groups = {("g", PartitionKey("id of a", 0)): saved}
    image = image_of_topics({"a": [registration]}, group_offsets=groups)
    start = {"image": image, "wanted": ALL_OF_A[:1]}

    if is_told:
        with pytest.raises(LogTruncatedError, match="PARTITION_OFFSET_CHANGED"):
            resolved(Group("g", EARLIEST), **start)
    else:
        assert resolved(Group("g", EARLIEST), **start).positions == by_name({"a": {0: offset}})
    passed_over = resolved(Group("g", EARLIEST), **start, fails_on_data_loss=False)
    assert passed_over.positions == by_name({"a": {0: min(offset, 10)}})
    assert passed_over.cut.unclean_generations == (by_name({"a": {0: now}}) if now else {})


@pytest.mark.parametrize("offset, start", [(12, 5), (4, 4), (2, 2)])
def test_a_group_that_passes_over_a_loss_starts_where_it_was_cut_as_its_consumers_do(offset, start):
    """It skipped what came in place of the lost records, and saved that for all of the group."""
    saved = GroupOffset(offset=Offset(offset), leader_epoch=None)
    groups = {("g", PartitionKey("id of a", 0)): saved}
    before = image_of_topics({"a": [partition("1", start=2, hw=15)]}, group_offsets=groups)
    world = appended(cut_short(AddedAgain(before, ()), "a", at=5), "a", end=20)

    found = resolved(
        Group("g", EARLIEST),
        world.image,
        ALL_OF_A[:1],
        fails_on_data_loss=False,
        find_cuts=lambda generations: cuts_after(world.pieces, generations),
    )

    assert found.positions == by_name({"a": {0: start}})
    # What a stream of it saves before its first batch.
    [record] = save_group(world.image, "g", found, now_ms=0).records
    assert (record.offset, record.unclean_generation) == (start, 1)


def starting_at(offset):
    """Return what `startingOffsets` says, given a query's own offset as JSON."""
    options = {"cluster": "/c", "subscribe": "a", "startingoffsets": json.dumps(offset.to_json())}
    return parse_source(options, is_stream=True).starting


def test_a_querys_own_offset_is_cut_to_the_log_start_where_the_history_of_elections_is_gone():
    own = starting_at(StreamOffset.in_image(IMAGE, by_name({"a": {0: 3, 1: 4}})))

    def gone(since):
        raise HistoryExpiredError("gone")

    image = added_again(IMAGE, "a", 9).image
    found = resolved(own, image, fails_on_data_loss=False, find_cuts=gone)

    assert found.positions == by_name({"a": {0: 3, 1: 0}})


def test_a_querys_own_offset_may_be_started_from_and_is_held_against_the_cluster():
    own = StreamOffset.in_image(IMAGE, by_name({"a": {0: 3, 1: 4}}))
    again = image_of_topics({"a": [partition("1", hw=10)] * 2}, ids={"a": "another id"})
    another = image_of_topics({"a": [partition("1", hw=10)] * 2}, cluster_id="another")

    assert resolved(starting_at(own)).positions == by_name({"a": {0: 3, 1: 4}})
    with pytest.raises(InconsistentTopicIdError):
        resolved(starting_at(own), again)
    with pytest.raises(InconsistentClusterIdError):
        resolved(starting_at(own), another)
