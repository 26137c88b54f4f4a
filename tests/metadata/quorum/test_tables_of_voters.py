"""Commits on voters' tables: elections, following, appending."""

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    FencedLeaderEpochError,
    IllegalStateError,
    InconsistentClusterError,
    NotLeaderOrFollowerError,
)
from kafka_on_spark.metadata.quorum.raft import (
    EPOCHS_OF_A_GENERATION,
    adopt,
    append,
    begin_leadership,
    decide_vote,
    fetch,
    stand,
)
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    RaftBatch,
    RaftLog,
    VoterTable,
)
from tests.metadata.quorum.voters import key, log, table


def standing(node, *epochs, epoch):
    found = table(node, *epochs)
    return found.apply(stand(found, epoch))


def test_nobody_stands_in_an_epoch_that_it_has_seen():
    with pytest.raises(IllegalStateError, match="has seen epoch 2"):
        stand(table(0, 1, epoch=2), 2)


def test_nobody_votes_for_a_voter_that_does_not_stand():
    assert not decide_vote(table(1, 1), table(0, 1, epoch=2)).is_granted


def test_a_leadership_begins_with_its_mark_and_its_no_op_in_one_commit():
    candidate = standing(0, 1, epoch=2)

    led = candidate.apply(begin_leadership(candidate, {key(1)}, "w"))

    assert led.leads
    assert led.log.batches[-1] == RaftBatch(2, 3, 2, "w", BatchKind.NO_OP)
    with pytest.raises(IllegalStateError, match="no majority"):
        begin_leadership(candidate, set(), "w")
    with pytest.raises(IllegalStateError, match="stands no more"):
        begin_leadership(led, {key(1)}, "w")


def test_a_vote_of_an_emptied_root_counts_for_nothing():
    candidate = standing(0, 1, epoch=2)
    emptied = key(1)._replace(directory_id="another")

    with pytest.raises(IllegalStateError):
        begin_leadership(candidate, {emptied}, "w")


LEADER = table(0, 1, 3, 3, leader=0)


def test_a_leader_whose_epoch_is_over_is_not_adopted():
    with pytest.raises(FencedLeaderEpochError):
        adopt(table(1, 1, epoch=4), LEADER)
    with pytest.raises(FencedLeaderEpochError):
        fetch(table(1, 1, epoch=4), LEADER)


def test_two_leaders_of_an_epoch_stop_everything():
    with pytest.raises(InconsistentClusterError, match="two leaders"):
        adopt(table(1, 1, epoch=3, leader=2), LEADER)


def test_a_cut_below_what_a_decision_proves_committed_is_refused():
    # Its decision at 3 says that all before 3 is committed; the leader has another batch at 2.
    voter = table(1, 1, 2, 2)

    with pytest.raises(InconsistentClusterError, match="proves committed"):
        adopt(voter, LEADER)


FORCED = EPOCHS_OF_A_GENERATION + 2


def test_a_root_that_was_given_up_with_decisions_that_are_gone_is_said_to_be():
    leader = table(2, 1, FORCED, leader=2)
    given_up = table(1, 1, 2, 2)

    with pytest.raises(InconsistentClusterError, match=r"was given up .*: empty it, then add it"):
        adopt(given_up, leader)
    assert adopt(table(1, 1), leader)  # it knew nothing that is gone


def test_a_batch_of_the_same_epoch_and_another_write_is_not_shared():
    """A table that was set back may part from the others inside an epoch."""
    other = RaftLog((*log(1).batches, RaftBatch(2, 3, 1, "another")))
    voter = VoterTable(key(1), 1, (), (), other)
    leader = table(0, 1, 1, 3, leader=0)

    assert adopt(voter, leader).cut_to == 2


def test_nothing_is_fetched_without_the_leaders_mark():
    with pytest.raises(NotLeaderOrFollowerError, match="has not adopted"):
        fetch(table(1, 1, epoch=3, vote=0), LEADER)


def test_a_follower_with_more_than_its_leader_was_seen_after_it():
    ahead = table(1, 1, 3, 3, leader=0)

    assert fetch(ahead, table(0, 1, 3, leader=0)) is None


def test_a_follower_with_another_log_under_the_leaders_mark_stops_everything():
    other = RaftLog((*log(1).batches, RaftBatch(2, 3, 3, "another")))
    voter = VoterTable(key(1), 3, (), ((key(0), 3),), other)

    with pytest.raises(InconsistentClusterError, match="no beginning"):
        fetch(voter, LEADER)


def test_whole_batches_are_fetched_in_order():
    voter = table(1, 1)
    voter = voter.apply(adopt(voter, LEADER))

    one = fetch(voter, LEADER, records_max=1)

    assert one.appended == LEADER.log.batches[2:3]
    assert fetch(voter, LEADER, records_max=5).appended == LEADER.log.batches[2:]
    assert fetch(voter.apply(fetch(voter, LEADER)), LEADER) is None


def decision(base, **named):
    return {"base_offset": base, "record_count": 2, "write_id": "w", **named}


def test_the_tail_comes_first():
    with pytest.raises(CommitConflictError):
        append(LEADER, 3, 3, **decision(4))


def test_a_log_that_has_gone_on_is_decided_on_anew():
    with pytest.raises(CommitConflictError):
        append(LEADER, 3, 4, **decision(3))


@pytest.mark.parametrize("leader", [table(0, 1, 3, 3, leader=1), table(0, 3, epoch=4, vote=1)])
def test_nothing_is_appended_without_leading(leader):
    with pytest.raises(NotLeaderOrFollowerError):
        append(leader, 3, 4, **decision(4))
