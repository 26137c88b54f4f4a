"""Elections that a process holds: what stops one, what is lost in it, and who holds another."""

import pytest

from kafka_on_spark.base.errors import QuorumUnavailableError


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
