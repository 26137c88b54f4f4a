"""Which replicas are unassigned: each was assigned once, and is not now."""

from itertools import pairwise

import pytest

from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.controller.removing_replicas import Incarnation, is_assigned, times_unassigned
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    RemovePartitionRecord,
    RemoveTopicRecord,
    Stamp,
    TopicRecord,
)
from tests.builders import KEY, TOPIC, TOPIC_ID, brokers, disk, partition, uuid_on

OTHER_ID = TopicId("2" * 32)
SECOND = PartitionKey(TOPIC_ID, 1)


def made(broker_id, key=KEY):
    return Incarnation(key, uuid_on(broker_id))


def topic(topic_id=TOPIC_ID):
    return TopicRecord(topic=TOPIC, topic_id=topic_id)


def assigned(text, key=KEY):
    return PartitionRecord(
        topic=TOPIC, topic_id=key.topic_id, partition=key.partition, registration=partition(text)
    )


def changed(key=KEY, text=None):
    """Return a change of a partition's replicas, or of its ISR only."""
    if text is None:
        change = PartitionChange(isr=frozenset({1}))
    else:
        everyone = brokers(text)
        change = PartitionChange(
            replicas=everyone,
            replica_uuids=tuple(uuid_on(each) for each in everyone),
            directories=tuple(disk(each) for each in everyone),
            isr=frozenset(everyone),
            leader=everyone[0],
        )
    return PartitionChangeRecord(
        topic=TOPIC, topic_id=key.topic_id, partition=key.partition, change=change,
        leader_epoch=0, partition_epoch=0,
    )  # fmt: skip


def partition_gone(key=KEY):
    return RemovePartitionRecord(topic=TOPIC, topic_id=key.topic_id, partition=key.partition)


GONE = RemoveTopicRecord(topic_id=TOPIC_ID)
OTHER_GONE = RemoveTopicRecord(topic_id=OTHER_ID)
NAMESAKE = (topic(OTHER_ID), assigned("1 2", PartitionKey(OTHER_ID, 0)))

# fmt: off
LIVES = [  # a list of commits at times 1, 2, 3 …       replica → when it was taken away
    pytest.param([[topic(), assigned("1 2")]],                                    {},                                    id="all-are-assigned"),
    pytest.param([[topic(), assigned("1 2")], [GONE]],                            {made(1): 2, made(2): 2},              id="topic-deleted"),
    pytest.param([[topic(), assigned("1 2")], [changed()], [changed()]],          {},                                    id="changes-that-name-no-replicas"),
    pytest.param([[topic(), assigned("1 2")], [changed(text="3 2")]],             {made(1): 2},                          id="moved-away"),
    pytest.param([[topic(), assigned("1 2")], [changed(text="3 2 1")], [changed(text="1 2")]], {made(3): 3},             id="cancelled"),
    pytest.param([[topic(), assigned("1 2")], [changed(text="3 2")], [GONE]],     {made(1): 2, made(2): 3, made(3): 3},  id="moved-then-deleted"),
    pytest.param([[topic(), assigned("1"), assigned("2", SECOND)], [partition_gone(SECOND)]], {made(2, SECOND): 2},      id="partition-removed"),
    pytest.param([[topic(), assigned("1"), assigned("1", SECOND)], [partition_gone(SECOND)], [GONE]], {made(1): 3, made(1, SECOND): 2}, id="partition-removed-then-topic"),
    pytest.param([[topic(), assigned("1")], [*NAMESAKE], [GONE]],                 {made(1): 3},                          id="another-topic-stays"),
    pytest.param([[topic(), assigned("1")], [*NAMESAKE], [OTHER_GONE]],           {made(1, PartitionKey(OTHER_ID, 0)): 3, made(2, PartitionKey(OTHER_ID, 0)): 3}, id="another-topic-goes"),
    pytest.param([[topic(), assigned("1 2")], [changed(text="1 2 3"), changed(text="1 2")]], {made(3): 2},               id="came-and-went-in-one-commit"),
    pytest.param([[topic(), assigned("1"), GONE]],                                {made(1): 1},                          id="within-one-commit"),
]
# fmt: on
EVERYTHING = frozenset(
    made(each, key) for each in (1, 2, 3, 4) for key in (KEY, SECOND, PartitionKey(OTHER_ID, 0))
)


def batches(commits):
    offset = 0
    for time_ms, records in enumerate(commits, 1):
        yield MetadataBatch(
            base_offset=offset, stamp=Stamp(time_ms=time_ms), records=tuple(records)
        )
        offset += len(records)


@pytest.mark.parametrize("commits, expected", LIVES)
def test_times_unassigned(commits, expected):
    for cuts in every_way_to_cut(len(commits)):
        pieces = pieces_of(commits, cuts)
        assert times_unassigned(pieces, EVERYTHING) == expected, cuts
        for making in EVERYTHING:  # each asked for alone
            alone = times_unassigned(pieces, frozenset({making}))
            assert alone == {each: at for each, at in expected.items() if each == making}


def every_way_to_cut(count):
    """Return every choice of places where a snapshot may lie among so many commits."""
    ways = [[]]
    for place in range(1, count):
        ways += [[*each, place] for each in ways]
    return ways


def pieces_of(commits, cuts):
    """Return the log between snapshots, the newest piece first, each with the image before it."""
    log = list(batches(commits))
    ends = [0, *cuts, len(log)]
    return [
        (MetadataImage().replay(*log[:start]), log[start:end]) for start, end in pairwise(ends)
    ][::-1]


def test_no_older_piece_of_the_log_is_read_than_it_takes():
    commits = [[topic(), assigned("1 2")], [changed()], [changed(text="3 2")], [changed()]]
    read = []

    def pieces():
        for piece in pieces_of(commits, [1, 2]):
            read.append(piece[0].offset)
            yield piece

    assert times_unassigned(pieces(), frozenset({made(1)})) == {made(1): 3}
    assert read == [3]
    assert times_unassigned(pieces(), frozenset({made(1), made(4)})) == {made(1): 3}
    assert read == [3, 3, 2, 0]


def test_what_is_assigned_is_so_by_its_uuid_and_partition():
    image = MetadataImage().replay(*batches([[topic(), assigned("1 2"), assigned("3", SECOND)]]))

    assert {making for making in EVERYTHING if is_assigned(image, making)} == {
        made(1),
        made(2),
        made(3, SECOND),
    }
