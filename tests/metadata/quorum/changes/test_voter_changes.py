"""Voters are added and removed one at a time, whatever fails, while others decide."""

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    DuplicateVoterError,
    KafkaStorageError,
    VoterNotFoundError,
)
from kafka_on_spark.metadata.quorum.voter_table import BatchKind, RaftBatch, TableChange, VoterSet
from tests.metadata.quorum.changes.grown_quorums import grown, leader_of, new_root, nodes_of
from tests.voter_fakes import STAMP, VoterFault, key_of, voter_of


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


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(lambda voters: voters.with_voter(voter_of(3)), id="one more"),
        pytest.param(lambda voters: voters.without_voter(key_of(2)), id="one less"),
    ],
)
def test_a_change_that_came_to_nothing_leaves_the_others_their_majority(quorum, process, changed):
    """It stands at the end of a root that comes back, and the next leader's root goes away before
    anybody has brought that one up."""
    grown(quorum, process)
    new_root(quorum)
    old, *_, new = quorum.roots
    end, voters = old.table.log.end_offset, changed(old.table.log.voters)
    batch = RaftBatch(end, end + 1, old.table.quorum_epoch, "change", BatchKind.DECISION, voters)
    assert old.put(old.table, TableChange(appended=(batch,)), {})
    old.is_offline = new.is_offline = True
    process.decide("a")
    assert quorum.roots[1].table.leads

    old.is_offline, quorum.roots[1].is_offline = False, True
    late = quorum.process("late")
    late.tables.use(VoterSet.of(map(voter_of, (0, 1, 2))))  # its list names all of them

    assert late.names() == ["a"]
    assert nodes_of(late.tables.voters) == [0, 1, 2]
    assert "change" not in old.writes


REFUSED = [
    pytest.param(lambda c: c.add(voter_of(0), STAMP), DuplicateVoterError, id="a voter again"),
    pytest.param(lambda c: c.remove(key_of(7), STAMP), VoterNotFoundError, id="no voter"),
    pytest.param(lambda c: c.remove(key_of(0), STAMP), VoterNotFoundError, id="the only one"),
    pytest.param(lambda c: c.elect(key_of(7)), VoterNotFoundError, id="elect no voter"),
]


@pytest.mark.parametrize("change, error", REFUSED)
def test_changes_that_can_not_be_are_refused(quorum, process, change, error):
    before = quorum.roots[0].table

    with pytest.raises(error):
        change(process.changes)

    assert quorum.roots[0].table == before


@pytest.mark.parametrize("fault", list(VoterFault))
@pytest.mark.parametrize("nth", range(4))
@pytest.mark.parametrize("node", range(3))
def test_a_store_that_fails_in_a_change_loses_nothing(quorum, process, fault, nth, node):
    """Voter 2 is added, or comes to be, or is not; decisions go on in any case."""
    grown(quorum, process, 2)
    voter = new_root(quorum)
    quorum.roots[node].faults.extend([None] * nth + [fault])

    try:
        process.changes.add(voter, STAMP)
        is_told = True
    except (CommitOutcomeUnknownError, CommitConflictError, KafkaStorageError):
        is_told = False

    for root in quorum.roots:
        root.faults.clear()
        root.land()
    process.decide("a")
    late = quorum.process("late")
    assert late.names() == ["a"]
    assert not is_told or nodes_of(late.tables.voters) == [0, 1, 2]
    assert late.tables.voters in (
        VoterSet.of(map(voter_of, (0, 1))),
        VoterSet.of(map(voter_of, (0, 1, 2))),
    )
