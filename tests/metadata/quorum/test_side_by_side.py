"""Several calls on voters at once, whose caller takes what comes first."""

import threading
from itertools import islice

import pytest

from kafka_on_spark.metadata.quorum.voter_tables import SideBySide, VoterCall
from kafka_on_spark.store.deadlines import THREADS_A_ROOT
from tests.voter_fakes import key_of

LONG_MS = 30_000


@pytest.fixture
def gate():
    made = threading.Event()
    yield made
    made.set()


def calls_of(*works):
    return [VoterCall(key_of(node), work) for node, work in enumerate(works)]


def test_no_voter_waits_for_another_of_which_all_threads_hang(gate):
    side_by_side = SideBySide(str)
    hang = lambda: gate.wait(30)  # noqa: E731
    for _ in range(2 * THREADS_A_ROOT):
        assert list(side_by_side.run(calls_of(hang), 0)) == []

    found = side_by_side.run(calls_of(hang, lambda: "one", lambda: "two"), LONG_MS)

    assert sorted(call.found for call in islice(found, 2)) == ["one", "two"]
