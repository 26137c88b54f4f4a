"""The contract of RootHints, for the fake and for the file, and contents that are no hint."""

import json
import os

import pytest

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.storage.calls.file_limits import SMALL_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata.hints.root_hint import NAME, ROOTS_MAX, FileRootHints, encode
from tests.fakes import MemoryRootHints
from tests.hints import hint_roots

CLEANED = {"__cluster_metadata": 1_700_000_000_000, "1": 1_699_999_999_000}


@pytest.fixture(params=["memory", "file"])
def hints(request, tmp_path):
    if request.param == "memory":
        return MemoryRootHints()
    return FileRootHints(hint_roots(tmp_path))


def test_where_nothing_was_left_there_is_no_hint(hints):
    assert hints.read("a-cluster") == {}


def test_the_last_hint_comes_back(hints):
    hints.write("a-cluster", {"1": 7})
    hints.write("a-cluster", CLEANED)

    assert hints.read("a-cluster") == CLEANED


def test_the_hint_of_another_cluster_at_the_same_place_is_none(tmp_path):
    hints = FileRootHints(hint_roots(tmp_path))
    hints.write("a-cluster", CLEANED)

    assert hints.read("another") == {}


def test_a_hint_of_many_roots_fits_and_has_those_that_were_cleaned_last(tmp_path):
    hints = FileRootHints(hint_roots(tmp_path))
    cleaned = {str(10**9 + number): 2**53 - number for number in range(2 * ROOTS_MAX)}

    hints.write("a" * 64, cleaned)

    assert len(encode("a" * 64, cleaned)) <= SMALL_FILE_BYTES_MAX
    assert hints.read("a" * 64) == dict(list(cleaned.items())[:ROOTS_MAX])


FIELDS = {"version": 1, "cluster_id": "a-cluster", "cleaned_at_ms": CLEANED}

# fmt: off
DAMAGED = [
    pytest.param(b"",                                                    id="empty"),
    pytest.param(b"{",                                                   id="torn"),
    pytest.param(b"[" * 100_000,                                         id="deep"),
    pytest.param(b"null",                                                id="no-object"),
    pytest.param(json.dumps({**FIELDS, "version": 2}).encode(),          id="another-version"),
    pytest.param(json.dumps({**FIELDS, "cleaned_at_ms": []}).encode(),   id="a-list"),
    pytest.param(json.dumps({**FIELDS, "cleaned_at_ms": {"1": -1}}).encode(), id="before-1970"),
    pytest.param(json.dumps({**FIELDS, "cleaned_at_ms": {"1": 1.5}}).encode(), id="no-integer"),
    pytest.param(json.dumps({**FIELDS, "cleaned_at_ms": {"1": "1"}}).encode(), id="a-text"),
    pytest.param(json.dumps({**FIELDS, "cleaned_at_ms": {"1" * 99: 1}}).encode(), id="a-long-name"),
    pytest.param(b" " * (SMALL_FILE_BYTES_MAX + 1),                      id="too-large"),
]
# fmt: on


@pytest.mark.parametrize("content", DAMAGED)
def test_what_can_be_no_hint_is_none(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)

    assert FileRootHints(hint_roots(tmp_path)).read("a-cluster") == {}


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "elsewhere"
    target.write_bytes(encode("a-cluster", CLEANED))
    os.symlink(target, tmp_path / NAME)

    with pytest.raises(KafkaStorageError):
        FileRootHints(hint_roots(tmp_path)).read("a-cluster")
