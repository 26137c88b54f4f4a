"""A tail that only the leader's table has: whoever finds it ends it, and nobody reads it before."""

import pytest

from kafka_on_spark.errors import CommitConflictError, QuorumUnavailableError
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.raft.tables.appending import append
from kafka_on_spark.raft.tables.following import adopt, fetch
from tests.voter_fakes import STAMP, settings_of


def leave_tail(quorum, name):
    """Put a decision on the leader's table alone: its writer dies before anybody follows."""
    root = quorum.roots[0]
    end = root.table.log.end_offset
    batch = MetadataBatch(base_offset=end, stamp=STAMP, records=settings_of(name))
    change = append(
        root.table, root.table.quorum_epoch, end, base_offset=end, record_count=1, write_id=name
    )
    assert root.put(root.table, change, {name: batch})


def follow(quorum, node):
    """Bring a voter up to voter 0, as another process does."""
    leader, voter = quorum.roots[0], quorum.roots[node]
    for decide in (adopt, fetch):
        change = decide(voter.table, leader.table)
        if change is not None:
            assert voter.put(voter.table, change, leader.content)


def test_a_tail_is_ended_before_anything_is_decided(quorum, process):
    end = process.read(from_offset=0)[-1].end_offset
    leave_tail(quorum, "tail")

    with pytest.raises(CommitConflictError):
        process.decide("a", at=end)

    process.decide("a")
    assert process.names() == ["first", "tail", "a"]


def test_a_tails_own_writer_may_end_it(quorum, process):
    leave_tail(quorum, "tail")
    quorum.clock.on_sleep = lambda: follow(quorum, 1)
    before = [root.commits for root in quorum.roots]

    assert process.names() == ["first", "tail"]
    assert [root.commits for root in quorum.roots] == [before[0], before[1] + 1, before[2]]


def test_nobody_reads_what_only_the_leader_has(quorum, process):
    leave_tail(quorum, "tail")
    reader = quorum.process("q")
    reader.cut_off = {1, 2}

    with pytest.raises(QuorumUnavailableError):
        reader.names()
