"""Voters are added and removed one at a time, whatever fails, while others decide."""

import pytest

from kafka_on_spark.base.errors import (
    DuplicateVoterError,
)
from tests.metadata.quorum.changes.grown_quorums import leader_of, new_root
from tests.voter_fakes import STAMP


def test_a_voter_that_another_process_added_and_elected_meanwhile_is_left_alone(quorum, process):
    """A mark of itself without a no-op would begin no leadership."""
    voter, other = new_root(quorum), quorum.process("other")
    is_first = [True]

    def add_and_elect(change):
        if is_first and is_first.pop():
            other.changes.add(voter, STAMP)
            other.changes.elect(voter.key)

    quorum.roots[1].before_commit = add_and_elect
    with pytest.raises(DuplicateVoterError):
        process.changes.add(voter, STAMP)

    led = [each for each in quorum.roots[1].versions if each.leads]
    assert all(each.log.epoch_start(each.quorum_epoch) for each in led)
    assert leader_of(process) == 1
