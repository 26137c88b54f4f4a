"""The beginning of a new cluster's metadata log, on one voter or three, also where a try was cut short."""

from contextlib import suppress

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InvalidRootError,
    KafkaStorageError,
    QuorumUnavailableError,
)
from kafka_on_spark.metadata.quorum.voter_table import VoterTable
from kafka_on_spark.metadata.records import LeaderChangeRecord, VotersRecord
from tests.voter_fakes import MemoryQuorum, VoterFault

CLUSTER = "a-cluster"


def new_quorum(voter_count):
    """Return voters' roots with tables that nothing was written to."""
    quorum = MemoryQuorum(voter_count, is_led=False)
    for root in quorum.roots:
        root.versions, root.content = [VoterTable(root.key)], {}
    return quorum


def begin(quorum, name="p"):
    process = quorum.process(name)
    process.elections.begin_log(CLUSTER)
    return process


def kinds(process):
    return [type(record) for batch in process.read(from_offset=0) for record in batch.records]


@pytest.mark.parametrize(
    "fault", [VoterFault.LOST_BEFORE, VoterFault.LOST_ANSWER, VoterFault.REFUSED]
)
@pytest.mark.parametrize("voter_count", [1, 3])
def test_a_creation_that_was_cut_short_goes_on_with_what_it_finds(voter_count, fault):
    """Each commit fails once, wherever it is in the creation."""
    commit_count = 3 if voter_count == 1 else 3 + 1 + 1 + 1  # a batch each, stand, one vote, no-op
    for place in range(commit_count):
        quorum = new_quorum(voter_count)
        left = [place]

        def fail(change, quorum=quorum, left=left):
            left[0] -= 1
            if left[0] == -1:
                for root in quorum.roots:
                    root.faults.append(fault)

        for root in quorum.roots:
            root.before_commit = fail
        with suppress(CommitOutcomeUnknownError, KafkaStorageError, QuorumUnavailableError):
            begin(quorum)
        for root in quorum.roots:
            root.faults.clear()

        process = begin(quorum, "again")

        assert kinds(process)[0] is VotersRecord
        assert set(kinds(process)[1:]) == {LeaderChangeRecord}
        assert process.decide("a").end_offset == process.read(from_offset=0)[-1].end_offset
    assert left[0] < 0


def test_a_log_with_a_decision_is_a_cluster_s():
    quorum = new_quorum(3)
    begin(quorum).decide("a")

    with pytest.raises(InvalidRootError, match="a cluster at /meta/0 already"):
        begin(quorum, "another")


@pytest.mark.parametrize("place", range(3))
def test_all_voters_begin_with_one_batch_whoever_put_it_there_and_when(place):
    quorum = new_quorum(3)
    begun = []

    def rival(change):
        if not begun:
            begun.append(True)
            quorum.clock.advance(10_000)
            begin(quorum, "rival")

    quorum.roots[place].before_commit = rival

    begin(quorum)

    first, *others = [root.content[f"bootstrap-{CLUSTER}"] for root in quorum.roots]
    assert others == [first, first]
