"""A quorum of one: the same code, and no commit more than a log of one root."""

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    KafkaStorageError,
)
from tests.voter_fakes import MemoryQuorum, VoterFault


@pytest.fixture
def quorum():
    return MemoryQuorum(1)


@pytest.mark.parametrize("fault", [VoterFault.LOST_ANSWER, VoterFault.TORN])
def test_a_decision_whose_answer_was_lost_is_found_in_the_log(quorum, fault):
    process = quorum.process()
    quorum.roots[0].faults.append(fault)

    batch = process.decide("a")

    assert process.read(from_offset=2) == [batch]


def test_a_decision_that_can_still_land_is_unknown_and_the_next_one_excludes_it(quorum):
    process, (root,) = quorum.process(), quorum.roots
    root.faults.extend([VoterFault.LATE, VoterFault.LATE])
    with pytest.raises(CommitOutcomeUnknownError):
        process.decide("a")

    process.decide("b")
    root.land()

    assert process.names() == ["b"]


def test_a_root_that_is_away_is_the_only_voters_own_error(quorum):
    process, (root,) = quorum.process(), quorum.roots
    end = process.decide("a").end_offset
    root.is_offline = True

    for ask in (lambda: process.read(from_offset=end), lambda: process.decide("b", at=end)):
        with pytest.raises(KafkaStorageError, match="the root does not answer"):
            ask()

    root.is_offline = False
    process.decide("b")
    assert process.names() == ["a", "b"]
    assert not quorum.clock.slept_ms
