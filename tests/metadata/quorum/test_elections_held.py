"""Elections that a process holds: what stops one, what is lost in it, and who holds another."""

import pytest

from kafka_on_spark.base.errors import QuorumUnavailableError
from kafka_on_spark.metadata.quorum.voter_table import BatchKind
from tests.voter_fakes import VoterFault


def test_no_majority_answers_and_nothing_is_committed(quorum, process):
    quorum.roots[0].is_offline = quorum.roots[1].is_offline = True
    before = [root.commits for root in quorum.roots]
    quorum.clock.slept_ms.clear()

    with pytest.raises(QuorumUnavailableError, match="no majority of the 3 voters"):
        process.names()
    with pytest.raises(QuorumUnavailableError):
        process.decide("a", at=3)

    assert [root.commits for root in quorum.roots] == before
    assert not quorum.clock.slept_ms


@pytest.mark.parametrize("fault", [VoterFault.LOST_ANSWER, VoterFault.TORN, VoterFault.LOST_BEFORE])
@pytest.mark.parametrize("nth", [0, 1])
@pytest.mark.parametrize("node", [1, 2])
def test_an_answer_that_is_lost_in_an_election_loses_nothing(quorum, process, fault, nth, node):
    quorum.roots[0].is_offline = True
    faults = iter([None] * nth + [fault])

    def strike(change):
        struck = next(faults, None)
        if struck is not None:
            quorum.roots[node].faults.append(struck)

    quorum.roots[node].before_commit = strike

    process.decide("a")

    assert process.names() == ["first", "a"]
    no_ops = [
        each.epoch for each in quorum.roots[1].table.log.batches if each.kind is BatchKind.NO_OP
    ]
    assert len(set(no_ops)) == len(no_ops)


def test_a_majority_lost_for_ever_leaves_the_quorum_unavailable(quorum, process):
    quorum.roots[0].empty()
    quorum.roots[1].empty()

    for ask in (process.names, lambda: process.decide("a", at=3)):
        with pytest.raises(QuorumUnavailableError, match="make more of their roots reachable"):
            ask()
    assert quorum.roots[2].table.quorum_epoch == 1
