"""A process that was told of some voters only, or of former ones, finds those that there are."""

import pytest

from kafka_on_spark.base.errors import QuorumUnavailableError
from kafka_on_spark.metadata.quorum.voter_table import VoterSet
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
