"""One follower's fetch: what it takes, copies and cuts, and where it begins again."""

from dataclasses import replace

import pytest

from kafka_on_spark.log import truncation
from kafka_on_spark.log.fetch import fetch
from kafka_on_spark.log.truncation import first_batches
from tests.builders import batch, partition
from tests.fakes import FakeClock
from tests.log.two_replicas import FOLLOWER, ORDER, Two

# fmt: off
CUTS = [  # follower     cut  copied
    pytest.param("4:ab",       0,   3,  id="behind, with nothing of its own"),
    pytest.param("4:abx",      1,   3,  id="a record that its leader does not have"),
    pytest.param("4:abxyz",    3,   3,  id="three"),
    pytest.param("4:ab 5:xyzx", 4,  3,  id="four of a later epoch"),
    pytest.param("4:ab 6:cde", 0,   0,  id="all there already"),
]
# fmt: on


@pytest.mark.parametrize("follower, cut, copied", CUTS)
def test_a_fetch_says_what_it_cut_and_copied(follower, cut, copied):
    two = Two("4:ab 6:cde", follower, fence=6)
    state = two.replicas.open(FOLLOWER).load()
    registration = partition("1 2", isr="1", epoch=7)
    order = replace(ORDER, partition=registration, fetch_bytes_max=10**6)

    result = fetch(order, two.replicas, two.segments, FakeClock())

    assert (result.truncated_records, result.copied_records) == (cut, copied)
    assert state.log_end_offset - cut + copied == 5
    assert result.report.followers[0].log_end_offset == 5


# fmt: off
FIRST_TAKEN = [  # bytes  files  taken
    pytest.param(900, 9, 3, id="all"),
    pytest.param(600, 9, 2, id="as-many-as-have-the-bytes"),
    pytest.param(599, 9, 1, id="whole-ones"),
    pytest.param(1,   9, 1, id="one-however-large"),
    pytest.param(900, 3, 2, id="as-many-as-have-the-files"),
    pytest.param(900, 1, 1, id="one-however-many-files-it-has"),
]
# fmt: on


@pytest.mark.parametrize("bytes_max, files_max, count", FIRST_TAKEN)
def test_a_fetch_takes_whole_batches_that_one_commit_can_name(
    monkeypatch, bytes_max, files_max, count
):
    monkeypatch.setattr(truncation, "FILES_A_CHANGE_MAX", files_max)
    batches = [batch("a", 0, "2 1"), batch("b", 3, "3"), batch("c", 6, "1 1 1")]

    assert first_batches(batches, bytes_max) == batches[:count]
