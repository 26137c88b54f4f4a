"""Candidates whose process died: they are elected or taken back, and disturb nobody."""

from kafka_on_spark.metadata.quorum.raft import decide_vote
from tests.metadata.quorum.candidates import epochs, stood


def test_a_voter_that_was_stranded_and_votes_in_a_later_election_is_left_alone(quorum, process):
    """Another process is just taking it back."""
    stood(quorum, 2, 5)
    process.decide("a")
    process.maintain()
    candidate = stood(quorum, 1, 6)
    root = quorum.roots[2]
    assert root.put(root.table, decide_vote(root.table, candidate.table).change, {})
    quorum.clock.advance(2000)

    process.maintain()

    assert epochs(quorum) == [1, 6, 6]


def test_an_election_that_was_left_half_done_is_no_leadership_until_another_ends_it(
    quorum, process
):
    """A majority voted; the process died before the mark."""
    candidate = stood(quorum, 1, 2)
    change = decide_vote(quorum.roots[2].table, candidate.table).change
    assert quorum.roots[2].put(quorum.roots[2].table, change, {})
    assert not candidate.table.leads

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert epochs(quorum) == [2, 2, 2]
