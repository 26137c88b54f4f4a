"""The live grid is the grid of its image after any commits, and says which rows changed."""

from dataclasses import replace

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.console.answers import past_grid
from kafka_on_spark.console.grid import ROW_FIELDS, LiveGrid, concerns
from kafka_on_spark.observe.descriptions import grid_of
from tests.builders import TOPIC_ID, broker, brokers, image_of, partition, partition_map


def changed(image, *partitions, **fields):
    """Return the next image, with these partitions in place of its own."""
    topic = replace(image.topics[TOPIC_ID], partitions=partition_map(dict(enumerate(partitions))))
    topics = {TOPIC_ID: topic}
    return replace(image, offset=Offset(image.offset + 1), topics=topics, **fields)


def test_only_the_rows_of_partitions_that_changed_are_told():
    first, second = partition("1 2 3"), partition("2 3 1")
    before = image_of(first, second)
    live = LiveGrid()
    assert live.take(before) is None

    rows = live.take(changed(before, first, partition("2 3 1", "2 3", hw=7)))

    [row] = [dict(zip(ROW_FIELDS, each, strict=True)) for each in rows]
    assert (row["partition"], row["isr"], row["highWatermark"]) == (1, [2, 3], 7)
    assert row["problems"] == ["under-replicated (2 of 3)"]
    assert row["cells"] == [[2, "l:leader"], [3, "s:in sync"], [1, "o:out of sync"]]


def test_after_a_change_the_grid_is_the_one_that_is_made_anew():
    first = partition("1 2 3")
    before = image_of(first, partition("2 3 1"))
    after = changed(before, first, partition("2 3 1", "3", 3, hw=5))
    live = LiveGrid()
    live.take(before)

    live.take(after)

    assert live.grid == grid_of(after)
    assert live.view() == past_grid(after)


def test_a_broker_a_topic_or_a_setting_that_changed_is_told_as_a_whole():
    one = partition("1 2 3")
    before = image_of(one)
    others = [
        image_of(one, fenced="2"),
        image_of(one, configs={"min.insync.replicas": "3"}),
        image_of(one, partition("1 2 3")),
        replace(before, configs={"min.insync.replicas": "3"}),
        replace(before, topics={}),
        replace(before, brokers={**before.brokers, brokers("4")[0]: broker(4)}),
    ]

    for after in others:
        live = LiveGrid()
        live.take(before)

        assert live.take(replace(after, offset=Offset(101))) is None
        assert live.grid == replace(grid_of(after), offset=Offset(101))


def test_what_a_commit_concerns_is_told_by_the_names_of_views():
    before = image_of(partition("1 2 3"))

    assert concerns(before, replace(before, offset=Offset(101))) == []
    assert concerns(before, changed(before, partition("1 2 3"))) == ["partitions"]
    assert concerns(before, replace(before, group_offsets={("g", None): None})) == ["groups"]
    assert concerns(before, replace(before, brokers={})) == ["brokers"]
