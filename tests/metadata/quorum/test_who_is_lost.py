"""A voter is forced to go on alone: only the voters that fail count as lost."""

from itertools import count

import pytest

from kafka_on_spark.base.errors import (
    InvalidRequestError,
)
from kafka_on_spark.metadata.quorum.forcing import FAILING_MS_MAX, all_that_answer, force_voter
from kafka_on_spark.metadata.records import ClusterRecord
from tests.voter_fakes import STAMP, MemoryQuorum, voter_of


class Late:
    """A SideBySide of voters that take their time: by node, in ms."""

    def __init__(self, late_ms):
        self.late_ms = late_ms

    def run(self, calls, timeout_ms):
        for call in calls:
            if self.late_ms.get(call.key.node_id, 0) <= timeout_ms:
                yield call()


@pytest.fixture
def quorum():
    quorum = MemoryQuorum()
    quorum.process().decide("a")
    return quorum


def process_of(quorum, late_ms):
    process = quorum.process("q")
    process.tables._side_by_side = Late(late_ms)
    return process


def force(process):
    def begun(image, generation, cause):
        return [ClusterRecord(cluster_id="a-cluster", generation=generation, cause=cause)]

    ids = count()
    return force_voter(
        process.tables, voter_of(2), begun, stamp=STAMP, new_id=lambda: f"forced{next(ids)}"
    )


def test_a_slow_majority_is_waited_for_and_is_not_lost(quorum):
    process = process_of(quorum, {0: 3500, 1: FAILING_MS_MAX})
    before = quorum.roots[2].table

    with pytest.raises(InvalidRequestError, match="nothing is to be forced"):
        force(process)

    assert quorum.roots[2].table is before


@pytest.mark.parametrize("has_failed_before", [False, True])
def test_voters_that_neither_answer_nor_fail_are_not_lost(quorum, has_failed_before):
    process = process_of(quorum, {})
    if has_failed_before:
        quorum.roots[0].is_offline = quorum.roots[1].is_offline = True
        all_that_answer(process.tables)
    process.tables._side_by_side = Late({0: FAILING_MS_MAX + 1, 1: FAILING_MS_MAX + 1})

    with pytest.raises(InvalidRequestError, match="0:d0, 1:d1 neither answers nor fails"):
        force(process)
