"""Three voters: a decision is answered once a majority holds it, and a read is confirmed by one."""

import pytest

from kafka_on_spark.base.errors import (
    InconsistentClusterError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.metadata.quorum.raft import adopt, fetch
from tests.voter_fakes import MemoryVoterLog


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
