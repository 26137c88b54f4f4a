"""Hints outlive the metadata root that a cluster's list names first."""

import pytest

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.storage.metadata.hints.hint_file import HintFile
from kafka_on_spark.storage.metadata.hints.root_hint import FileRootHints
from kafka_on_spark.storage.roots.roots import StorageOptions

OPTIONS = StorageOptions()


@pytest.fixture
def roots(tmp_path):
    roots = [tmp_path / name for name in ("m1", "m2")]
    for root in roots:
        root.mkdir()
    return roots


@pytest.fixture
def file(roots):
    return HintFile(",".join(map(str, roots)), "hint", OPTIONS)


def test_a_hint_lies_on_the_first_root_that_takes_it(file, roots):
    file.write(b"1")
    assert (roots[0] / "hint").read_bytes() == b"1"
    assert not (roots[1] / "hint").exists()

    (roots[0] / "hint").unlink()
    roots[0].rmdir()
    file.write(b"2")

    assert list(file.contents()) == [b"2"]
    assert not roots[0].exists()


def test_a_root_that_comes_back_has_what_was_left_there(file, roots):
    file.write(b"1")
    roots[0].rename(roots[0].with_name("away"))
    file.write(b"2")
    roots[0].with_name("away").rename(roots[0])

    assert sorted(file.contents()) == [b"1", b"2"]


def test_where_no_root_takes_it_the_first_failure_is_told(file, roots):
    for root in roots:
        root.rmdir()

    with pytest.raises(KafkaStorageError):
        file.write(b"1")


def test_what_can_not_be_a_hint_is_passed_over_for_the_next_roots(roots):
    url = ",".join(map(str, roots))
    (roots[0] / "roots.json").mkdir()
    FileRootHints(str(roots[1]), OPTIONS).write("a-cluster", {"1": 7})

    assert FileRootHints(url, OPTIONS).read("a-cluster") == {"1": 7}
