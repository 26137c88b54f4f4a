"""Roots become voters, and voters are removed: new, late, lost, emptied and former ones."""

import pytest

from kafka_on_spark.base.errors import InconsistentClusterError, KafkaStorageError
from kafka_on_spark.metadata.quorum.raft import EPOCHS_OF_A_GENERATION
from kafka_on_spark.metadata.quorum.voter_table import TableChange
from tests.metadata.quorum.changes.grown_quorums import grown, new_root, nodes_of
from tests.voter_fakes import STAMP, key_of, voter_of


def test_a_root_that_takes_no_commits_becomes_no_voter(quorum, process):
    voter = new_root(quorum)
    process.changes.bring_up(voter)
    quorum.roots[1].is_read_only = True

    with pytest.raises(KafkaStorageError, match="fails"):
        process.changes.add(voter, STAMP)

    assert nodes_of(quorum.roots[0].table.log.voters) == [0]
    assert process.decide("a")


def stood_in_vain(quorum, process, node, epoch):
    """Have a voter be a candidate whose process died, and remove it."""
    table = process.tables.load(key_of(node))
    process.tables.commit(table, TableChange(quorum_epoch=epoch, vote=table.key))
    process.changes.remove(key_of(node), STAMP)


@pytest.mark.parametrize("is_brought_up_before", [True, False])
def test_a_former_voter_above_the_leaders_epoch_is_added_again(
    quorum, process, is_brought_up_before
):
    grown(quorum, process)
    stood_in_vain(quorum, process, 2, epoch=5)
    other = quorum.process("other")

    if is_brought_up_before:
        other.changes.bring_up(voter_of(2))
    voters = other.changes.add(voter_of(2), STAMP)

    assert nodes_of(voters) == [0, 1, 2]
    assert [root.table.quorum_epoch for root in quorum.roots] == [6, 6, 6]
    process.decide("a")
    quorum.roots[1].is_offline = True
    process.decide("b")


def test_no_leader_is_elected_above_a_root_of_a_later_generation(quorum, process):
    grown(quorum, process)
    stood_in_vain(quorum, process, 2, epoch=EPOCHS_OF_A_GENERATION + 2)

    for change in (process.changes.bring_up, lambda voter: process.changes.add(voter, STAMP)):
        with pytest.raises(InconsistentClusterError, match="the cluster was forced"):
            change(voter_of(2))

    assert [root.table.quorum_epoch for root in quorum.roots[:2]] == [1, 1]
