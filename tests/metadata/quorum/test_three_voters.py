"""Three voters: a decision is answered once a majority holds it, and a read is confirmed by one."""

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InconsistentClusterError,
    KafkaStorageError,
    QuorumUnavailableError,
    ReplicaLostError,
)
from kafka_on_spark.metadata.quorum.raft import adopt, fetch
from tests.voter_fakes import MemoryVoterLog


def test_a_decision_is_answered_once_a_majority_holds_it(quorum, process):
    process.calls.loses_rest = True

    process.decide("a")

    assert [len(root.writes) for root in quorum.roots] == [4, 4, 3]
    assert quorum.process("q").names() == ["first", "a"]


def test_what_was_last_seen_of_voters_is_told_without_a_look(quorum, process):
    quorum.roots[2].is_offline = True
    process.decide("a")
    looks = [(root.looks, root.loads) for root in quorum.roots]

    found = process.last_seen()

    assert [(root.looks, root.loads) for root in quorum.roots] == looks
    assert [each.problem is None for each in found.voters] == [True, True, False]
    assert [each.lag > 0 for each in found.voters] == [False, False, True]
    assert found.high_watermark == process.describe().high_watermark
    quorum.roots[2].is_offline = False
    process.decide("b")
    assert [each.problem for each in process.last_seen().voters] == [None] * 3
    assert quorum.process("q").last_seen() is None


def test_a_decision_that_too_few_hold_is_unknown(quorum, process):
    for node in (1, 2):
        quorum.roots[node].is_read_only = True

    with pytest.raises(CommitOutcomeUnknownError):
        process.decide("a")

    # It stands on the leader: the next who looks ends what the writer left.
    for node in (1, 2):
        quorum.roots[node].is_read_only = False
    assert process.names() == ["first", "a"]


def test_a_process_that_reaches_followers_only_ends_nothing_that_others_lead(quorum, process):
    """It waits, and finds that the voters take the leader's batches: it disturbs nobody."""
    lonely = quorum.process("q")
    assert lonely.names() == ["first"]
    lonely.cut_off = {0}
    quorum.clock.on_sleep = lambda: process.decide("more")

    with pytest.raises(QuorumUnavailableError):
        lonely.names()

    assert {root.table.quorum_epoch for root in quorum.roots} == {1}


def test_a_voter_that_was_restored_is_refused_by_who_has_seen_more(quorum, process):
    process.decide("a")
    quorum.roots[2].restore(1)

    process.decide("b")

    assert len(quorum.roots[2].versions) == 2
    quorum.roots[1].is_offline = True
    with pytest.raises((QuorumUnavailableError, CommitOutcomeUnknownError)):
        process.decide("c")


def test_a_leader_that_was_restored_is_replaced_by_who_has_seen_more(quorum, process):
    process.decide("a")
    quorum.roots[0].restore(2)

    assert process.names() == ["first", "a"]
    assert quorum.roots[1].table.leads


def test_a_leader_that_lacks_what_was_seen_committed_stops_everything(quorum, process):
    """Voter 1 was restored from a copy, and elected by who had not seen it."""
    process.calls.loses_rest = True
    process.decide("a")
    quorum.roots[1].restore(1)
    quorum.lead(2, epoch=2, voters=[1])
    old, leader = quorum.roots[0], quorum.roots[2]
    for decide in (adopt, fetch):
        assert old.put(old.table, decide(old.table, leader.table), leader.content)

    with pytest.raises(InconsistentClusterError, match="which this process has seen committed"):
        process.names()


def test_committed_batches_are_read_from_any_voter_that_has_them(quorum, process):
    batch = process.decide("a")
    quorum.roots[0].is_offline = True

    assert process.read(from_offset=3, to_offset=4) == [batch]


def test_an_emptied_voter_beside_others_that_do_not_answer_stops_nothing_for_ever(
    quorum, process, monkeypatch
):
    """Of the only voter that is an error on which all has to stop; of one of three it is passing."""
    end = process.read(from_offset=0)[-1].end_offset

    def read(log, **given):
        error = ReplicaLostError if log._key == quorum.roots[0].key else KafkaStorageError
        raise error("not now")

    monkeypatch.setattr(MemoryVoterLog, "read", read)
    with pytest.raises((ReplicaLostError, KafkaStorageError)):
        process.read(from_offset=0, to_offset=end)
