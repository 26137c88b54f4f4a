"""The JSON files of Kafka's tools, as Kafka writes them and as people do."""

import io
import json

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import TopicPartition
from kafka_on_spark.cli.kafka_files import (
    read_partitions,
    read_topics,
)
from kafka_on_spark.cli.reassignment import REPLICAS
from kafka_on_spark.controller.reassignment import assignment_as_dict

ASSIGNMENT = {TopicPartition("flights", 1): [2, 3], TopicPartition("flights", 0): [1, 2]}


def test_proposal_of_a_plan_is_read_as_it_is(json_file):
    file = json_file({"proposed": assignment_as_dict(ASSIGNMENT), "bytes_moved": 7})

    assert read_partitions(str(file), *REPLICAS) == ASSIGNMENT


def test_standard_input_is_read_for_a_dash(monkeypatch):
    content = {"partitions": [{"topic": "flights", "partition": 0, "offset": -1}]}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(content)))

    assert read_partitions("-", "offset", 42) == {("flights", 0): -1}


def test_version_may_be_left_out_and_topics_be_named_twice(json_file):
    topics = {"topics": [{"topic": "b"}, {"topic": "a"}, {"topic": "b"}]}

    assert read_topics(str(json_file(topics))) == ["b", "a"]
    named = {"partitions": [{"topic": "a", "partition": 3}]}
    assert read_partitions(str(json_file(named)), "partition", 0) == {("a", 3): 3}


@pytest.mark.parametrize("content", [[], {"topics": []}, {"topics": ["a"]}, {"topics": [{}]}, "1"])
def test_file_without_topics_is_refused(json_file, content):
    with pytest.raises(InvalidRequestError, match="topic"):
        read_topics(str(json_file(content)))


def test_file_that_is_no_text_is_refused(tmp_path):
    file = tmp_path / "file.json"
    file.write_bytes(b"\xff\xfe")

    with pytest.raises(InvalidRequestError, match="can't be read"):
        read_topics(str(file))
