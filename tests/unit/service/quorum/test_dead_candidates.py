"""Candidates whose process died: they are elected or taken back, and disturb nobody."""

from kafka_on_spark.raft.tables.candidacy import decide_vote
from tests.unit.service.quorum.candidates import epochs, stood


def test_after_a_split_vote_the_next_epoch_decides(quorum, process):
    quorum.roots[0].is_offline = True
    stood(quorum, 1, 2)
    stood(quorum, 2, 2)

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert epochs(quorum) == [1, 3, 3]


def test_a_candidate_that_died_after_its_own_vote_is_taken_back(quorum, process):
    stood(quorum, 2, 5)

    end = process.decide("a").end_offset
    process.maintain()
    assert epochs(quorum) == [1, 1, 5]

    quorum.clock.advance(2000)
    process.maintain()
    assert epochs(quorum)[0] == 6
    assert quorum.roots[0].table.leads

    process.decide("b")
    assert epochs(quorum) == [6, 6, 6]
    assert quorum.roots[2].writes == quorum.roots[0].writes
    assert process.read(from_offset=end)


def test_a_candidate_that_others_took_back_is_left_alone(quorum, process):
    stood(quorum, 2, 5)
    end = process.decide("a").end_offset
    process.maintain()
    other = quorum.process("q")
    other.decide("b")
    other.maintain()
    quorum.clock.advance(2000)
    other.maintain()
    other.decide("c")

    process.maintain()

    assert epochs(quorum) == [6, 6, 6]
    assert process.read(from_offset=end)


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


def test_a_voter_stays_stranded_where_others_elected_another_leader(quorum, process):
    """It is theirs to take back: this process knows the old leader."""
    stood(quorum, 2, 5)
    process.decide("a")
    process.maintain()
    quorum.lead(1, epoch=3, voters=[0])
    quorum.clock.advance(2000)

    process.maintain()

    assert epochs(quorum) == [3, 3, 5]
    assert quorum.roots[1].table.leads


def test_a_leader_that_stood_and_whose_process_died_is_elected_in_that_epoch(quorum, process):
    stood(quorum, 0, 2)

    process.decide("a")

    assert process.names() == ["first", "a"]
    assert epochs(quorum) == [2, 2, 2]


def test_a_leader_is_replaced_though_a_look_takes_longer_than_the_fetch_timeout(quorum, process):
    """All but the leader have voted for a candidate that died; each answer takes its time."""
    process.decide("a")
    quorum.process("bring up").names()
    stood(quorum, 1, 2)
    root = quorum.roots[2]
    assert root.put(root.table, decide_vote(root.table, quorum.roots[1].table).change, {})
    run = process.calls.run

    def run_slowly(calls, timeout_ms):
        quorum.clock.advance(2500)
        return run(calls, timeout_ms)

    process.calls.run = run_slowly

    # One look takes all the time that a call has: the next one counts, which follows it.
    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads


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


def test_a_disruptive_candidate_with_a_shorter_log_gets_no_votes(quorum, process):
    """It deposes nobody: the leader and the third voter never hear of it."""
    quorum.roots[2].is_offline = True
    process.decide("a")
    quorum.roots[2].is_offline = False
    shorter = stood(quorum, 2, 2)

    assert not decide_vote(quorum.roots[1].table, shorter.table).is_granted
    process.decide("b")
    assert epochs(quorum) == [1, 1, 2]
