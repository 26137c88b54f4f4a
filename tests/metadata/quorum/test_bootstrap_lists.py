"""A process that was told of some voters only, or of former ones, finds those that there are."""

import pytest

from kafka_on_spark.base.errors import QuorumUnavailableError
from kafka_on_spark.metadata.quorum.raft import adopt, fetch
from kafka_on_spark.metadata.quorum.voter_table import BatchKind, RaftBatch, TableChange, VoterSet
from tests.voter_fakes import MemoryQuorum, voter_of


def told_of(quorum, *nodes):
    """Start a process whose list names only some of the voters."""
    process = quorum.process("q")
    process.tables.use(VoterSet.of(map(voter_of, nodes)))
    return process


def test_a_voter_alone_that_was_told_of_is_no_majority():
    quorum = MemoryQuorum()
    quorum.process().decide("a")
    quorum.roots[1].is_offline = quorum.roots[2].is_offline = True

    with pytest.raises(QuorumUnavailableError, match="3 voters"):
        told_of(quorum, 0).names()


def test_a_list_of_a_former_voter_leads_to_the_newest_set():
    """Voter 0 was alone at first, and is none any more; its own log says so."""
    quorum = MemoryQuorum(3)
    for nodes in ((0, 1), (0, 1, 2), (1, 2)):
        process = quorum.process(f"w{len(nodes)}")
        add_voters(quorum, process, *nodes)
    assert {key.node_id for key in quorum.roots[0].table.log.voters.keys} == {1, 2}

    process = told_of(quorum, 0)
    names = process.names()

    assert names == []
    assert {key.node_id for key in process.tables.voters.keys} == {1, 2}


def add_voters(quorum, process, *nodes):
    """Append a change of voters to the leader's log and bring all roots up, as a driver would."""
    root = quorum.roots[0]
    end = root.table.log.end_offset
    voters = VoterSet.of(map(voter_of, nodes))
    write_id = f"voters-{end}"
    batch = RaftBatch(end, end + 1, root.table.quorum_epoch, write_id, BatchKind.DECISION, voters)
    content = {write_id: process.read(from_offset=0)[0]}
    assert root.put(root.table, TableChange(appended=(batch,)), content)
    for each in quorum.roots[1:]:
        for decide in (adopt, fetch):
            change = decide(each.table, root.table)
            if change is not None:
                assert each.put(each.table, change, dict(root.content))
    quorum.flush()


def test_a_process_that_came_to_an_older_set_of_one_voter_is_told_of_what_others_decided():
    """The table that it confirmed last is unchanged, and was confirmed by three voters."""
    quorum = MemoryQuorum()
    process = quorum.process()
    process.decide("first")
    quorum.lead(1, epoch=2, voters=(1, 2))
    others = quorum.process("q")
    others.cut_off = {0}
    others.decide("new")

    process.tables.use(VoterSet.of([voter_of(0)]))

    assert process.names() == ["first", "new"]
