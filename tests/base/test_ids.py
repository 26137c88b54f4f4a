"""Which topic names are allowed: Kafka's cases (Source: TopicTest); and which texts are numbers."""

import pytest

from kafka_on_spark.base.errors import InvalidTopicError
from kafka_on_spark.base.ids import (
    KEEP,
    PartitionKey,
    TopicPartition,
    check_topic_name,
    whole_number,
)

GOOD = ["valid", "TOPIC", "nAmEs", "ar6", "VaL1d", "_0-9_.", "...", "__consumer_offsets", "a" * 249]
BAD = ["", ".", "..", "a" * 250, "foo bar", "foo/bar", "../x", "a\n", "\n", "a\0", "foo\\bar", "é", "a:b", "a,b", "a*", "٣"]  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_allowed_name(name):
    check_topic_name(name)


@pytest.mark.parametrize("name", [*BAD, None])
def test_name_that_is_not_allowed_is_told_so(name):
    with pytest.raises(InvalidTopicError, match="topic name"):
        check_topic_name(name)


@pytest.mark.parametrize("code", range(128))
def test_every_ascii_character_alone_is_allowed_as_kafka_allows_it(code):
    name = f"a{chr(code)}"
    if chr(code).isalnum() or chr(code) in "._-":
        check_topic_name(name)
        return
    with pytest.raises(InvalidTopicError):
        check_topic_name(name)


def test_names_for_people_and_keys_for_machines():
    assert str(TopicPartition("orders", 3)) == "orders-3"
    assert PartitionKey("id", 3) == ("id", 3)
    assert KEEP is not None


@pytest.mark.parametrize("text, number", [("0", 0), ("+7", 7), ("-12", -12), ("007", 7)])
def test_a_whole_number_is_read_as_java_reads_it(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text", ["1_000", " 1", "1 ", "", "-", "+-1", "1.0", "1e3", "0x1", "\u0661"]
)
def test_what_python_alone_takes_for_a_number_is_none(text):
    with pytest.raises(ValueError, match="is no whole number"):
        whole_number(text)
