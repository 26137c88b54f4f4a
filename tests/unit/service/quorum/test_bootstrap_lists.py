"""A process that was told of some voters only, or of former ones, finds those that there are."""

import pytest

from kafka_on_spark.errors import QuorumUnavailableError
from kafka_on_spark.raft.voter_set import VoterSet
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
