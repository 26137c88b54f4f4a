"""What of upkeep fails, noted in a file of the metadata root: what was written is read, and no more."""

import json

import pytest

from kafka_on_spark.ids import BrokerId, PartitionKey, TopicId
from kafka_on_spark.service.maintain.upkeep_watch import TEXT_MAX, Seen
from kafka_on_spark.storage.calls.file_limits import SMALL_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata.hints.upkeep_notes import (
    FAILURES_MAX,
    NAME,
    FileUpkeepNotes,
    encode,
)
from tests.hints import hint_roots

KEY = PartitionKey(TopicId("t" * 32), 3)
FAILURES = {
    ((KEY, BrokerId(2)), "compact"): Seen(1_700_000_000_000, "a file is damaged", False),
    ((KEY, None), "retention"): Seen(1_700_000_000_001, "not adopted", True),
    ((None, None), "round"): Seen(5, "no executors \u2028 \x1b", False),
}


@pytest.fixture
def notes(tmp_path):
    return FileUpkeepNotes(hint_roots(tmp_path))


def test_what_was_noted_is_read_by_its_cluster_only(notes):
    assert notes.read("a-cluster") == {}

    notes.write("a-cluster", FAILURES)

    assert notes.read("a-cluster") == FAILURES
    assert notes.read("another") == {}
    notes.write("a-cluster", {})
    assert notes.read("a-cluster") == {}


def test_of_very_many_failures_the_oldest_are_noted_and_they_fit(notes):
    many = {
        ((PartitionKey(TopicId("é" * 64), number), BrokerId(2**31)), "compact"): Seen(
            2**42 + number, "\U0001f600" * TEXT_MAX, False
        )
        for number in range(5 * FAILURES_MAX)
    }

    notes.write("a-cluster", many)

    found = notes.read("a-cluster")
    assert found == dict(list(many.items())[: len(found)])
    assert len(found) > 4


def damaged(change):
    fields = json.loads(encode("a-cluster", FAILURES))
    change(fields)
    return json.dumps(fields).encode()


# fmt: off
NO_NOTES = [
    pytest.param(b"",                                                      id="empty"),
    pytest.param(b"[" * 100_000,                                           id="deep"),
    pytest.param(b"x" * (SMALL_FILE_BYTES_MAX + 1),                        id="too-large"),
    pytest.param(b"[]",                                                    id="a-list"),
    pytest.param(damaged(lambda each: each.update(version=2)),             id="another-version"),
    pytest.param(damaged(lambda each: each.update(failures={})),           id="no-list"),
    pytest.param(damaged(lambda each: each["failures"].append([1])),       id="a-short-row"),
    pytest.param(damaged(lambda each: each["failures"][0].__setitem__(1, "1")),  id="no-broker"),
    pytest.param(damaged(lambda each: each["failures"][0].__setitem__(3, -1)),   id="no-time"),
    pytest.param(damaged(lambda each: each["failures"][0].__setitem__(4, "")),   id="no-error"),
    pytest.param(damaged(lambda each: each["failures"][0].__setitem__(2, [])),   id="no-kind"),
]
# fmt: on


@pytest.mark.parametrize("content", NO_NOTES)
def test_bytes_that_can_be_no_note_count_as_none(notes, tmp_path, content):
    (tmp_path / NAME).write_bytes(content)

    assert notes.read("a-cluster") == {}
