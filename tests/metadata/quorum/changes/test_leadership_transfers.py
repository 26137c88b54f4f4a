"""Leadership is transferred to a voter that is named, or to the best one, while others decide."""

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from tests.metadata.quorum.changes.grown_quorums import grown, leader_of
from tests.voter_fakes import key_of


def test_the_lowest_of_the_best_voters_leads_if_none_is_named(quorum, process):
    grown(quorum, process)
    process.changes.elect(key_of(2))
    quorum.process("bring up").names()

    assert process.changes.elect(None) == key_of(0)
    assert leader_of(process) == 0
    assert process.changes.elect(None) == key_of(0)
    assert quorum.roots[0].table.quorum_epoch == 3


def test_a_voter_whose_root_fails_can_not_be_elected(quorum, process):
    grown(quorum, process)
    quorum.roots[1].is_read_only = True

    with pytest.raises(KafkaStorageError, match="can't lead"):
        process.changes.elect(key_of(1))

    assert leader_of(process) == 0
    assert process.decide("a")
