"""What lies between two cuts of a topic, and which cuts can't be read any more."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    InconsistentTopicIdError,
    InvalidRequestError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, TopicId
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.read_order import check_left, of_changes, plan_reads, ranges_between
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import Compaction
from tests.builders import TOPIC, image_of, partition
from tests.controller.added_again import added_again


def at(offset, *high_watermarks, **fields):
    image = image_of(*(partition("1 2 3", hw=each, **fields) for each in high_watermarks))
    return replace(image, offset=Offset(offset))


def compacted(image, **offsets):
    topic_id, topic = next(iter(image.topics.items()))
    numbers = {
        number: replace(each, compaction=Compaction(**offsets))
        for number, each in topic.partitions.items()
    }
    return replace(image, topics={topic_id: replace(topic, partitions=numbers)})


def another(image):
    """Return an image whose topic has the name, and another id."""
    [topic] = image.topics.values()
    topic = replace(topic, topic_id=TopicId("another"))
    return replace(image, topics={topic.topic_id: topic}, topic_ids={TOPIC: topic.topic_id})


def mixed(image, *more):
    [(topic_id, topic)] = image.topics.items()
    partitions = dict(enumerate([*topic.partitions.values(), *more]))
    return replace(image, topics={topic_id: replace(topic, partitions=partitions)})


def test_the_changes_are_what_was_committed_between_the_cuts():
    before, after, now = at(5, 3, 7), at(9, 4, 7, 2), at(12, 9, 9, 9)

    assert ranges_between(before, after, now, TOPIC) == {0: (3, 4), 1: (7, 7), 2: (0, 2)}


NOW = at(12, 9)
T = {"compacted_below": 8, "cleaned_below": 6, "expiring_below": 6, "tombstones_below": 4}

# fmt: off
REFUSED = [  # the first cut, the second, now                                            error
    pytest.param(at(9, 4), at(5, 3), NOW,                         InvalidRequestError,   "name the earlier one first",    id="wrong-order"),
    pytest.param(at(5, 3), at(9, 4), MetadataImage(),             UnknownTopicOrPartitionError, "was deleted",            id="topic-gone"),
    pytest.param(at(5, 3, 3), at(9, 4, 4), NOW,                   UnknownTopicOrPartitionError, "was removed",            id="partition-gone"),
    pytest.param(at(5, 3), at(9, 4), at(12, 9, start=4),          OffsetOutOfRangeError, "from 3 on are deleted",         id="records-deleted"),
    pytest.param(at(5, 3), NOW, compacted(NOW, **T),              OffsetOutOfRangeError, "tombstones below 4 are gone",   id="tombstones-gone"),
    pytest.param(at(5, 5), at(9, 7), compacted(NOW, **T),         OffsetOutOfRangeError, "it is compacted below 8",       id="values-of-then-gone"),
    pytest.param(at(5, 3), at(9, 4), at(12, 9, unclean_generation=1), LogTruncatedError, "were lost since, by an unclean", id="records-lost"),
    pytest.param(MetadataImage(), at(9, 4), at(12, 9, unclean_generation=1), LogTruncatedError, "read the whole",        id="records-lost-of-a-younger-topic"),
    pytest.param(at(5, 3), at(9, 4, 4), mixed(at(12, 9), partition("1 2 3", hw=9, unclean_generation=1)), LogTruncatedError, "orders-1 were lost since", id="records-lost-of-a-younger-partition"),
    pytest.param(another(at(5, 3)), at(9, 4), NOW,                InconsistentTopicIdError, "created again between the two moments: read the whole", id="another-topic"),
    pytest.param(at(5, 3, 3), at(9, 4), at(12, 9, 9),             UnknownTopicOrPartitionError, "-1 was removed between the two", id="partition-removed-between"),
]
# fmt: on


@pytest.mark.parametrize("before, after, now, error, words", REFUSED)
def test_changes_that_can_not_be_told_are_refused(before, after, now, error, words):
    with pytest.raises(error, match=words):
        ranges_between(before, after, now, TOPIC)


def test_a_partition_that_was_added_after_the_later_cut_has_no_changes():
    before, after, now = at(5, 3, 7), at(9, 4, 9), at(12, 6, 9, 5)
    ranges = ranges_between(before, after, now, TOPIC)
    starts, ends = ({number: each[place] for number, each in ranges.items()} for place in (0, 1))

    orders = of_changes(plan_reads(now, TOPIC, starts, ends), ranges)

    assert {each.name.partition: (each.start_offset, each.end_offset) for each in orders} == ranges
    assert [each.tombstones_max for each in orders] == [3, 7]


def test_a_partition_that_was_removed_and_added_again_is_another_one():
    """Its records have the offsets of those that went."""
    was = at(5, 3, 5)
    now = added_again(was, TOPIC, 8).image

    for before, after in ((was, now), (was, replace(was, offset=Offset(6)))):
        with pytest.raises(LogTruncatedError, match=r"orders-1 were lost .*added again"):
            ranges_between(before, after, now, TOPIC)
    assert ranges_between(now, now, now, TOPIC) == {0: (3, 3), 1: (8, 8)}


def test_a_moment_below_what_is_compacted_is_not_read():
    now = compacted(NOW, **T)

    assert plan_reads(at(9, 8), TOPIC, now=now)
    with pytest.raises(OffsetOutOfRangeError, match="can't be read as it was at high watermark 7"):
        plan_reads(at(9, 7), TOPIC, now=now)


LEFT = CompactionProgress(compacted_below=8, tombstones_below=4)


# fmt: off
LACKING = [  # what must be there
    pytest.param({"compacted_max": 7, "tombstones_max": None},   "it is compacted below 8",       id="values-are-gone"),
    pytest.param({"compacted_max": 8, "tombstones_max": 3},      "tombstones below 4 are gone",   id="deletions-are-gone"),
]
# fmt: on


@pytest.mark.parametrize("asked, message", LACKING)
def test_a_replica_that_was_compacted_since_is_not_read_for_a_cut(asked, message):
    [order] = plan_reads(at(9, 8), TOPIC)

    with pytest.raises(OffsetOutOfRangeError, match=message):
        check_left(replace(order, **asked), LEFT)
