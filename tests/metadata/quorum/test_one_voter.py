"""A quorum of one: the same code, and no commit more than a log of one root."""

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InconsistentClusterError,
    KafkaStorageError,
)
from tests.voter_fakes import STAMP, MemoryQuorum, VoterFault, settings_of


@pytest.fixture
def quorum():
    return MemoryQuorum(1)


def test_an_append_above_or_below_the_end_is_a_conflict(quorum):
    for at in (1, 3):
        with pytest.raises(CommitConflictError):
            quorum.process().decide("a", at=at)


@pytest.mark.parametrize("fault", [VoterFault.LOST_ANSWER, VoterFault.TORN])
def test_a_decision_whose_answer_was_lost_is_found_in_the_log(quorum, fault):
    process = quorum.process()
    quorum.roots[0].faults.append(fault)

    batch = process.decide("a")

    assert process.read(from_offset=2) == [batch]


def test_a_decision_that_was_lost_on_its_way_is_put_again_at_the_same_version(quorum):
    process = quorum.process()
    quorum.roots[0].faults.append(VoterFault.LOST_BEFORE)

    process.decide("a")

    assert process.names() == ["a"]


def test_a_decision_that_can_still_land_is_unknown_and_the_next_one_excludes_it(quorum):
    process, (root,) = quorum.process(), quorum.roots
    root.faults.extend([VoterFault.LATE, VoterFault.LATE])
    with pytest.raises(CommitOutcomeUnknownError):
        process.decide("a")

    process.decide("b")
    root.land()

    assert process.names() == ["b"]


def test_a_decision_that_landed_late_is_replayed_before_the_next_one(quorum):
    process, (root,) = quorum.process(), quorum.roots
    root.faults.extend([VoterFault.LATE, VoterFault.LATE])
    with pytest.raises(CommitOutcomeUnknownError):
        process.decide("a")
    root.land()

    with pytest.raises(CommitConflictError):
        process.decide("b", at=2)

    process.decide("b")
    assert process.names() == ["a", "b"]


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


def test_a_read_up_to_an_offset_leaves_out_a_batch_that_goes_on(quorum):
    process = quorum.process()
    first, second = process.decide("a", "b"), process.decide("c", "d")

    assert process.read(from_offset=2, to_offset=6) == [first, second]
    assert process.read(from_offset=2, to_offset=5) == [first]
    assert process.read(from_offset=4, to_offset=5) == []
    assert process.read(from_offset=2, to_offset=2) == []
    assert process.read(from_offset=2, to_offset=99) == [first, second]


def test_a_log_that_ends_below_what_was_seen_stops_everything(quorum):
    with pytest.raises(InconsistentClusterError):
        quorum.process().read(from_offset=3)


def test_snapshots_and_moments_are_the_only_voters(quorum):
    process = quorum.process()
    end = process.decide("a", "b").end_offset
    process.write_snapshot(settings_of("a", "b"), STAMP, end)

    assert process.newest_snapshot().end_offset == end
    assert process.newest_snapshot(to_offset=end - 1) is None
    assert process.offset_at(STAMP.time_ms - 1) == 0
    assert process.offset_at(STAMP.time_ms) == end
