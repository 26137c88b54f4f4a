"""Hints outlive the metadata root that a cluster's list names first."""

import os

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.metadata.cluster_roots import HintRoots
from kafka_on_spark.store.roots import StorageOptions
from tests.hints import hint_roots


@pytest.fixture
def roots(tmp_path):
    roots = [tmp_path / name for name in ("m1", "m2")]
    for root in roots:
        root.mkdir()
    return roots


@pytest.fixture
def file(roots):
    return hint_roots(*roots)


def test_a_hint_lies_on_the_first_root_that_takes_it(file, roots):
    file.write("hint", b"1")
    assert (roots[0] / "hint").read_bytes() == b"1"
    assert not (roots[1] / "hint").exists()

    (roots[0] / "hint").unlink()
    roots[0].rmdir()
    file.write("hint", b"2")

    assert list(file.contents("hint")) == [b"2"]
    assert not roots[0].exists()


def test_where_no_root_takes_it_the_first_failure_is_told(file, roots):
    for root in roots:
        root.rmdir()

    with pytest.raises(KafkaStorageError):
        file.write("hint", b"1")


def test_a_hint_lies_where_the_voters_are_by_now(roots):
    newest = [str(roots[0])]
    file = HintRoots(lambda: newest, StorageOptions())
    file.write("hint", b"1")
    newest[:] = [str(roots[1])]
    assert list(file.contents("hint")) == []

    file.write("hint", b"2")

    assert (roots[1] / "hint").read_bytes() == b"2"


def test_a_pipe_blocks_no_process_and_is_replaced(file, roots):
    os.mkfifo(roots[0] / "hint")
    assert list(file.contents("hint")) == []

    file.write("hint", b"1")

    assert list(file.contents("hint")) == [b"1"]


def test_what_can_not_be_a_hint_is_passed_over_for_the_next_roots(file, roots):
    (roots[0] / "hint").mkdir()
    (roots[1] / "hint").write_bytes(b"1")

    assert list(file.contents("hint")) == [b"1"]
