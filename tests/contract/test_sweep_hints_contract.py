"""A hint of the sweep is read as it was written; any other content counts as no hint."""

import json

import pytest

from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.controller.scheduler import (
    AGAIN_MAX,
    NAME,
    SweepPosition,
    decode,
    encode,
)
from kafka_on_spark.store.local_files import SMALL_FILE_BYTES_MAX
from tests.hints import hint_roots


def key(number, topic_id="a" * 32):
    return PartitionKey(TopicId(topic_id), number)


POSITION = SweepPosition(
    at_ms=1_700_000_000_000,
    begins_at=key(7),
    owed=1.5,
    ring=12,
    again=(key(3), key(4)),
    worked_at_ms=1_700_000_000_500,
    cleaned_at_ms=1_700_000_000_400,
)
LARGEST = SweepPosition(
    at_ms=2**53,
    begins_at=key(999_999),
    owed=1_000_000.123456789,
    ring=2**53,
    again=tuple(key(100_000 + each) for each in range(AGAIN_MAX)),
    worked_at_ms=2**53,
    cleaned_at_ms=2**53,
)


def read(tmp_path, cluster_id="a-cluster"):
    found = [decode(each, cluster_id) for each in hint_roots(tmp_path).contents(NAME)]
    return found[0] if found else None


@pytest.mark.parametrize("position", [POSITION, LARGEST], ids=["a position", "the largest"])
def test_the_hint_that_was_left_last_is_read(tmp_path, position):
    hint_roots(tmp_path).write(NAME, encode("a-cluster", position))

    assert read(tmp_path) == position
    assert read(tmp_path, "a cluster before") is None


# What may lie in the file's place


FIELDS = json.loads(encode("a-cluster", POSITION))


def changed(**fields):
    return json.dumps({**FIELDS, **fields}).encode()


# fmt: off
NO_HINTS = [
    pytest.param(b"",                                            id="nothing"),
    pytest.param(encode("a-cluster", POSITION)[:-9],               id="a part of one"),
    pytest.param(b"\x00\xff\xfe",                                id="no text"),
    pytest.param(b"[" * 60_000,                                  id="nested brackets"),
    pytest.param(changed(version=1),                             id="another version"),
    pytest.param(changed(at_ms=-1),                              id="a time before all"),
    pytest.param(changed(at_ms=2**53 + 1),                       id="a time after all"),
    pytest.param(changed(owed=float("nan")),                     id="no number"),
    pytest.param(changed(owed=-1.0),                             id="less than nothing"),
    pytest.param(changed(worked_at_ms="1"),                      id="a text for a number"),
    pytest.param(changed(begins_at=["a" * 65, 1]),               id="a long id"),
    pytest.param(changed(begins_at=None),                        id="no partition"),
    pytest.param(changed(again="ab"),                            id="a text for a list"),
    pytest.param(changed(again=[["a", 1]] * (AGAIN_MAX + 1)),    id="too many failed inspections"),
    pytest.param(json.dumps({"version": 2, "cluster_id": "a-cluster"}).encode(), id="fields missing"),
    pytest.param(encode("a-cluster", POSITION) + b" " * SMALL_FILE_BYTES_MAX, id="more than a hint takes"),
]
# fmt: on


@pytest.mark.parametrize("content", NO_HINTS)
def test_what_can_not_be_a_hint_is_none(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)

    assert read(tmp_path) is None
