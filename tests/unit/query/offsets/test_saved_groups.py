"""What a group saves: of the topics and partitions that are still there."""

from kafka_on_spark.query.offsets.group_offsets import save_group
from kafka_on_spark.query.offsets.stream_offsets import StreamOffset
from tests.builders import image_of_topics, partition


def test_a_topic_or_partition_that_is_gone_keeps_no_other_from_being_saved():
    image = image_of_topics({"b": [partition("1", hw=9)], "d": [partition("1", hw=9)]})
    position = StreamOffset(positions={"a": {0: 1}, "b": {0: 2, 7: 3}, "c": {0: 4}, "d": {0: 5}})

    result = save_group(image, "g", position, now_ms=0)

    assert [(each.topic_id, each.partition) for each in result.records] == [
        ("id of b", 0),
        ("id of d", 0),
    ]
    assert result.response == 2
